"""What became of a dry run, for people and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import click

from ..dry_run.comparison import WELL, Comparison, Ends
from ..dry_run.engine import DryRun
from ..dry_run.moments import Both, Pair
from ..redaction import redact_text
from ..snapshots.changes import ROW
from ..states import Outcome
from .output import cell, print_rows, printable

_SOME = 20
"""Attempts to get out that are printed; JSON has them all."""
_PRINTED = 400
"""Characters of what the body printed, its last; JSON has more."""
_SOME_OUTPUT = 100
"""Characters of what a step gave that are printed."""
_COLOURS = {Ends.WELL: "green", Ends.SAME: "red", Ends.OTHERWISE: "red", Ends.DIED: "red"}


def all_well(ran: DryRun) -> bool:
    """Has all that was followed ended well?"""
    return all(ended_well(one) for one in (ran.found or {}).get("followed") or () if "not_followed" not in one)


def ended_well(followed: Mapping[str, Any]) -> bool:
    """Has a job ended well that was published, and run?"""
    return followed["outcome"] in (*map(str, WELL), str(Outcome.RETRY_SCHEDULED)) and not followed["missing"]


def show(ran: DryRun, mode: str) -> None:
    """Print what people want to know first."""
    comparison, found = ran.comparison, ran.found or {}
    job = ran.recording.job
    _line("sandbox", ran.sandbox)
    click.echo(
        f"{mode} of {printable(job.operation)} {printable(job.task_id)}: "
        + click.style(_shown(comparison.said), fg=_COLOURS.get(comparison.ends, "yellow"), bold=True)
    )
    if ran.recording.told:
        _line("arguments", ran.recording.told)
    _line("then", _ending(comparison.outcome_then, comparison.failure_then))
    _line("now", _ending(comparison.outcome, comparison.failure))
    for pair in comparison.pairs if ran.found else ():
        _show_pair(pair)
    if ran.found:
        _show_lists(comparison)
    _show_place(found.get("at"))
    _show_state(found)
    _show_outside(ran, found)
    if found.get("cache_unknown"):
        unknown = found["cache_unknown"]
        more = f", and {len(unknown) - _SOME} more" if len(unknown) > _SOME else ""
        _line("not recorded", f"in the cache: {', '.join(unknown[:_SOME])}{more}; it was told that nothing is there")
    if found.get("unlike"):
        _line("unlike then", ", ".join(found["unlike"]))
    if ran.report.error is not None:
        click.echo(_shown(ran.report.error.traceback))


def _show_outside(ran: DryRun, found: Mapping[str, Any]) -> None:
    """Show what would have left the process, and what it printed."""
    for one, count in Counter(map(str, ran.report.blocked)).most_common(_SOME):
        _line("refused", f"{one}{f', {count} times' if count > 1 else ''}")
    if found.get("published") and found.get("followed") is None:
        _line("would publish", ", ".join(found["published"]))
    for one in found.get("followed") or ():
        _show_followed(one)
    if found.get("left_running"):
        _line("left running", f"{', '.join(found['left_running'])}: nobody knows what it would have done")
    for name, told in (found.get("surroundings") or {}).items():
        if told:
            _line(name.replace("_", " "), told if isinstance(told, str) else json.dumps(told))
    for name, stream in (("stdout", ran.report.stdout), ("stderr", ran.report.stderr)):
        if stream.text:
            _line(name, stream.text[-_PRINTED:].strip())


def _show_followed(one: Mapping[str, Any]) -> None:
    """Show what became of a job that was published."""
    indent = "  " * (one["depth"] - 1)
    if "not_followed" in one:
        _line("not followed", f"{indent}{one['task']}: {one['not_followed']}")
        return
    missing = f"; it goes on to step {one['missing'][0]}, of which nothing is recorded" if one["missing"] else ""
    _line("followed", f"{indent}{one['task']}: {_ending(one['outcome'], one['failure'])}{missing}")


def _show_pair(pair: Pair) -> None:
    if pair.same:
        _line("  as then", str(pair.now))
    elif pair.then is not None and pair.now is not None and "step" not in pair.differs:
        _line("  differs", f"{pair.now}, but its {' and '.join(pair.differs)}: {_gave(pair)}")
    else:
        _line("  differs", f"then {_said(pair.then) or 'nothing'}, now {_said(pair.now) or 'nothing'}")


def _gave(pair: Pair) -> str:
    then, now = (one.output if one is not None else None for one in (pair.then, pair.now))
    if then is None or now is None or "output" not in pair.differs:
        return "another call than then"
    return f"then {then[:_SOME_OUTPUT]}, now {now[:_SOME_OUTPUT]}"


def _show_lists(comparison: Comparison) -> None:
    """Show what differs beside the steps: the key, leases, effects."""
    for name in ("key", "leases", "cache"):
        both: Both = getattr(comparison, name)
        # Where no reads were recorded, those of now are told as such.
        if not both.same and (both.then or name != "cache"):
            _line(name, f"then {', '.join(both.then) or 'none'}, now {', '.join(both.now) or 'none'}")
    for when, only in zip(("then", "now"), comparison.effects.only(), strict=True):
        if only:
            _line(f"only {when}", ", ".join(only))


def _show_place(at: Mapping[str, Any] | None) -> None:
    """Show the state at the place from which on its steps were live."""
    if at is None:
        return
    if not at["reached"]:
        _line("live", f"it never came to {at['name']}")
        return
    differs = at["differs"]
    if differs is None:
        said = "no state was recorded up to there"
    else:
        how = "differs from" if differs else "is as recorded at"
        said = f"the state {how} {at['compared']!r}, the last snapshot up to there"
    _line("live", f"from {at['name']} on; {said}")
    if differs:
        print_rows(differs, ROW, as_json=False)


def _show_state(found: Mapping[str, Any]) -> None:
    if found.get("began_as_then") is False:
        _line("state", "it began with another one than was recorded: does state= declare all rows that the task reads?")
    if found.get("state"):
        click.echo("it would change")
        print_rows(found["state"], ROW, as_json=False)


def _ending(outcome: str | None, failure: Mapping[str, Any] | None) -> str:
    said = f": {failure['type']}: {failure['message']}" if failure else ""
    return f"{outcome or 'no end'}{said}"


def _said(moment: object) -> str | None:
    return None if moment is None else str(moment)


def _line(name: str, said: str) -> None:
    click.echo(f"{name:14}{cell(redact_text(said))}")


def _shown(text: str) -> str:
    return "\n".join(map(printable, redact_text(text).splitlines()))
