"""What two runs of a job can be compared by, step by step: its name, its end, what went in and what came out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from ..cache_reads import CACHE_READ
from ..records import Event, StepRecord
from ..serialization import bytes_digest, canonical_json, digest
from .recording import Recording

Data = dict[str, Any]

STEPS = {"step_done": "ok", "step_skipped": "ok", "step_verified": "ok", "step_failed": "fail"}
"""Events that a step leaves, and how it ended for the body: whether it was done or only remembered is the same."""
LEASES = ("lease_acquired", "lease_contended", "lease_released", "lease_lost")
PUBLISHED = "child_published"
SHOWN = 2_000
"""Characters of an output that are compared field by field and shown; of a longer one only whether it is the same."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """A step or an event of the task's own, as far as two runs can be compared by it."""

    name: str
    status: str
    error: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    """What is known of what it was called with: the call's name, the digest of its arguments, or these."""
    output: str | None = None
    """What it gave, as JSON, or how a long one is named; None where that is not known."""

    def __str__(self) -> str:
        return f"{self.name} {self.status}{f' ({self.error})' if self.error else ''}"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """What was expected, and what came; None where one run had ended."""

    then: Moment | None
    now: Moment | None
    differs: tuple[str, ...] = ()
    """In what, as far as that is known of both: `step`, `input`, `output`."""

    @property
    def same(self) -> bool:
        """Is it what was recorded?"""
        return not self.differs


@dataclass(frozen=True, kw_only=True)
class Both:
    """Something of then and of now, in words."""

    then: Sequence[str]
    now: Sequence[str]

    @property
    def same(self) -> bool:
        """Is it what it was?"""
        return list(self.then) == list(self.now)

    def only(self) -> tuple[list[str], list[str]]:
        """Return what is in one of them alone, whatever the order."""
        then, now = Counter(self.then), Counter(self.now)
        return [*(then - now).elements()], [*(now - then).elements()]


def told(event: Event) -> Data:
    """Return what two runs can be compared by, as a process tells it to another."""
    return {name: getattr(event, name) for name in ("name", "step", "status", "domain", "side_effect", "attributes")}


def outputs_of(recording: Recording) -> Mapping[str, str]:
    """Return what is known that calls gave then, by what names the call."""
    return {**outputs(recording.steps.values()), **{call: brief(text) for call, text in recording.reads.items()}}


def outputs(steps: Iterable[StepRecord]) -> dict[str, str]:
    """Return what side effects gave, by what names the call."""
    return {digest(step.key): brief(step.output) for step in steps if step.output is not None}


def brief(text: str) -> str:
    """Return an output, or the name of a long one."""
    return text if len(text) <= SHOWN else f"{len(text):,} characters, {bytes_digest(text.encode())}"


def moments(events: Iterable[Mapping[str, Any]], gave: Mapping[str, str]) -> list[Moment]:
    """Return what an attempt's events tell that can be compared.

    Args:
        gave: outputs, by what names the call.
    """
    found = []
    for event in events:
        said = event["attributes"]
        if event["domain"]:
            found.append(Moment(name=f"event {event['name']}", status="ok", given=_texts({"said": said or None})))
        elif event["name"] in STEPS and event["step"]:
            output = gave.get(str(said.get("call_digest"))) or _texts({"result": said.get("result")}).get("result")
            found.append(
                Moment(
                    name=f"step {event['step']}",
                    status=STEPS[event["name"]],
                    error=str(said.get("error", "")),
                    given=_texts({name: said.get(name) for name in _GIVEN}),
                    output=output if STEPS[event["name"]] == "ok" else None,
                )
            )
    return found


_GIVEN = ("call_digest", "input_digest", "arguments")


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: brief(canonical_json(value)) for name, value in values.items() if value is not None}


def pair(then: Moment | None, now: Moment | None, ignore: Sequence[str] = ()) -> Pair:
    """Put two moments beside each other."""
    if then is None or now is None:
        return Pair(then=then, now=now, differs=("step",))
    differs = []
    if (then.name, then.status, then.error) != (now.name, now.status, now.error):
        differs.append("step")
    elif not ignored(then.name.partition(" ")[2], ignore):
        known = then.given.keys() & now.given.keys()
        differs += ["input"] if any(_both_differ(then.given[name], now.given[name], ignore) for name in known) else []
        differs += ["output"] if _both_differ(then.output, now.output, ignore) else []
    return Pair(then=then, now=now, differs=tuple(differs))


def _both_differ(one: str | None, other: str | None, ignore: Sequence[str]) -> bool:
    if one is None or other is None or one == other:
        return False
    return not ignore or _without(one, ignore) != _without(other, ignore)


def _without(text: str, ignore: Sequence[str]) -> Any:
    """Read JSON, and leave out the fields that are noise; what is no JSON stays as it is."""
    try:
        return _kept(json.loads(text), ignore)
    except (ValueError, RecursionError):
        return text


def _kept(value: Any, ignore: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {name: _kept(item, ignore) for name, item in value.items() if not ignored(name, ignore)}
    return [_kept(item, ignore) for item in value] if isinstance(value, list) else value


def ignored(name: str, patterns: Sequence[str]) -> bool:
    """Is what has this name noise?"""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def leases(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Tell what became of leases on resources; tokens and owners are others each time."""
    named = (event for event in events if event["name"] in LEASES and "resource" in event["attributes"])
    return [f"{event['name'].removeprefix('lease_')} {event['attributes']['resource']}" for event in named]


def cache_reads(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Tell what was found in caches, and what was not."""
    read = (event["attributes"] for event in events if event["name"] == CACHE_READ)
    return [f"{said.get('key')} {'hit' if said.get('hit') else 'miss'}" for said in read]


def effects(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """Tell which side effects were done, or found done, and what was published."""
    found = []
    for event in events:
        if event["name"] == PUBLISHED:
            found.append(f"publish {event['attributes'].get('task')}")
        elif event["side_effect"] and STEPS.get(event["name"]) == "ok":
            found.append(f"step {event['step']}")
    return found
