"""A dry run beside what was recorded: does it end as that did, and where do they part?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from ..records import Job
from ..states import Outcome, Word
from .moments import Both, Pair, cache_reads, effects, leases, moments, outputs_of, pair, told
from .recording import Recording

Data = dict[str, Any]

WELL = (Outcome.SUCCEEDED, Outcome.DEDUPLICATED, Outcome.IGNORED)
"""Outcomes of jobs that ended well."""


class Ends(Word):
    """How a dry run ended, beside what was recorded."""

    WELL = "succeeds"
    SAME = "fails_the_same_way"
    OTHERWISE = "fails_another_way"
    RETRIES = "retries"
    """Another delivery carries it on: its retry, or the task that takes its place."""
    DIVERGES = "diverges"
    """It asks the outside for something of which nothing is recorded."""
    BLOCKED = "blocked"
    """It tried what a dry run may not, though it may have swallowed the refusal."""
    DIED = "died"
    """Its process did not come to an end by itself."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One dry run beside its original."""

    ends: Ends
    said: str
    """In one sentence."""
    pairs: Sequence[Pair]
    key: Both
    leases: Both
    """What became of its leases on resources, in order."""
    effects: Both
    """Side effects that were done, and what was published."""
    cache: Both
    """What was found in caches, and what was not."""
    outcome_then: str
    failure_then: Data | None
    outcome: str | None
    failure: Data | None

    @property
    def parts_at(self) -> int | None:
        """The place of the first pair that differs."""
        return next((place for place, pair in enumerate(self.pairs) if not pair.same), None)


def compare(
    recording: Recording,
    found: Mapping[str, Any] | None,
    blocked: Sequence[str],
    died: str,
    ignore: Sequence[str] = (),
) -> Comparison:
    """Compare.

    Args:
        ignore: names of steps and of fields whose differences are noise, also as patterns.
        found: what `rerun` returned; None where it did not come to an end.
        blocked: what the run tried and may not, with its steps.
        died: how its process ended, where that was not by itself.
    """
    job = recording.job
    events_then, events = [*map(told, recording.events)], (found or {}).get("events", ())
    then = moments(events_then, outputs_of(recording))
    now = moments(events, (found or {}).get("outputs") or {})
    failure_then, failure = _failure(job), (found or {}).get("failure")
    pairs = [pair(a, b, ignore) for a, b in zip_longest(then, now)]
    ends, said = _end(found, failure_then, failure, blocked, died)
    return Comparison(
        ends=ends,
        said=said,
        pairs=pairs,
        key=Both(then=(job.key,), now=((found or {}).get("key") or "",)),
        leases=Both(then=leases(events_then), now=leases(events)),
        cache=Both(then=cache_reads(events_then), now=cache_reads(events)),
        effects=Both(then=effects(events_then), now=effects(events)),
        outcome_then=str(job.status),
        failure_then=failure_then,
        outcome=found["outcome"] if found else None,
        failure=failure,
    )


def _end(
    found: Mapping[str, Any] | None, then: Data | None, now: Data | None, blocked: Sequence[str], died: str
) -> tuple[Ends, str]:
    if found is None and blocked:
        return Ends.BLOCKED, f"it tried what a dry run may not, and did not come to an end: {blocked[0]}; {died}"
    if found is None:
        return Ends.DIED, f"it did not come to an end: {died}"
    if found["missing"]:
        return Ends.DIVERGES, f"it goes on to step {found['missing'][0]}, of which nothing is recorded"
    if blocked:
        return Ends.BLOCKED, f"it tried what a dry run may not: {blocked[0]}"
    if found["outcome"] is None:
        return Ends.DIED, "it left no record: is its task excluded, or does its class not call super().__call__()?"
    return _ended(found, Outcome(found["outcome"]), then, now)


def _if(found: Mapping[str, Any]) -> str:
    """Say on what a good end depends."""
    asked = (found.get("surroundings") or {}).get("not_recorded")
    return f", if there is nothing in {asked}: no row of it is recorded" if asked else ""


def _ended(found: Mapping[str, Any], outcome: Outcome, then: Data | None, now: Data | None) -> tuple[Ends, str]:
    if outcome in WELL:
        return Ends.WELL, ("it would succeed now" if then else "it succeeds, as it did") + _if(found)
    if outcome is Outcome.RETRY_SCHEDULED:
        return Ends.RETRIES, "it would be retried"
    if outcome is Outcome.SUPERSEDED:
        return Ends.RETRIES, "another task would take its place, which is not run here"
    if then and now and (then["type"], then["message"]) == (now["type"], now["message"]):
        return Ends.SAME, f"it fails in the same way: {_told(now)}"
    said = f"it fails, and not as it did: {_told(now)}" if then else f"it fails now: {_told(now)}"
    shadowed = (found.get("surroundings") or {}).get("shadow")
    of_database = not shadowed and now is not None and now["type"].startswith(("django.db.", "sqlite3."))
    return Ends.OTHERWISE, f"{said} (its database was SQLite, whatever the real one is)" if of_database else said


def _told(failure: Data | None) -> str:
    return f"{failure['type']}: {failure['message']}" if failure else "without an error"


def _failure(job: Job) -> Data | None:
    if not job.failure:
        return None
    told = json.loads(job.failure)
    return {name: str(told.get(name, "")) for name in ("type", "message", "reason")}
