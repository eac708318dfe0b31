"""`replay run`: a recorded job once more, without doing anything."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import click

from ..dry_run.comparison import Ends, Pair
from ..dry_run.engine import DryRun, Engine
from ..dry_run.recording import Recording, recording_of
from ..dry_run.variation import Variation
from ..redaction import redact_text
from ..runtime import Runtime
from ..snapshots.changes import ROW
from ..stores.base import Store
from . import options
from . import timeline as drawing
from .access import find_job, find_letter, runtime
from .output import cell, print_rows, printable, to_json
from .results import PARTLY

_SOME = 20
"""Attempts to get out that are printed; JSON has them all."""
_PRINTED = 400
"""Characters of what the body printed, its last; JSON has more."""
_COLOURS = {Ends.WELL: "green", Ends.SAME: "red", Ends.OTHERWISE: "red", Ends.DIED: "red"}


def sandboxed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what is said of a sandbox; a command that is asked to end cleans up."""

    @wraps(command)
    def ends_well(*args: Any, **kwargs: Any) -> Any:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: sys.exit(128 + number))
        return command(*args, **kwargs)

    timeout = click.FloatRange(0.1)
    limited = click.option("--timeout", type=timeout, default=60.0, show_default=True, help="Seconds a job may take.")
    required = click.option("--require-kernel", is_flag=True, help="Refuse where the kernel can't enforce the sandbox.")
    return limited(required(ends_well))


@click.command(epilog=options.example("run 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11 --mode dry-run"))
@click.argument("job_id")
@click.option(
    "--mode",
    type=click.Choice(["trace", "dry-run", "fork"]),
    default="trace",
    show_default=True,
    help="trace runs nothing; dry-run runs today's code in a sandbox, as it is recorded; fork with changes.",
)
@click.option("--set", "changes", multiple=True, metavar="ARG=JSON", help="Fork with another argument.")
@click.option(
    "--stub", "stubs", multiple=True, metavar="STEP=JSON", help="Fork: what a step gives, whatever is recorded."
)
@sandboxed
@options.as_json
@click.pass_context
def run(
    ctx: click.Context,
    job_id: str,
    mode: str,
    changes: Sequence[str],
    stubs: Sequence[str],
    timeout: float,
    require_kernel: bool,
    as_json: bool,
) -> None:
    """Run a recorded job again, by its task id, submission or trace, or its dead letter's. Nothing real is changed.

    A dry run goes by the payload, the state and the outputs that are recorded. To run a job for real, see `dlq replay`.
    The exit code is 0 where it would succeed, 4 where it would not.
    """
    here = runtime(ctx)
    if (changes or stubs) and mode != "fork":
        raise click.UsageError("--set and --stub change what is run: give --mode fork")
    if mode == "trace":
        drawing.show(here.store, find_job(here.store, job_id), as_json=as_json)
        return
    variation = Variation(
        arguments=dict(options.pair(text, "--set") for text in changes),
        stubs=dict(options.pair(text, "--stub") for text in stubs),
    )
    recording = recorded(here, job_id)
    with Engine(ctx.obj.app, timeout_s=timeout, require_kernel=require_kernel) as engine:
        ran = engine.run(recording, variation)
    if as_json:
        click.echo(to_json(_told(ran, mode)))
    else:
        _show(ran, mode)
    ctx.exit(0 if ran.comparison.ends is Ends.WELL else PARTLY)


def recorded(here: Runtime, name: str) -> Recording:
    """Read what is recorded of a job, or of the one that it is a replay of."""
    store: Store = here.store
    job = find_job(store, name)
    letter = find_letter(store, job.submission)
    if letter is None:
        return recording_of(store, job, job.message or b"")
    return recording_of(store, store.job(letter.submission) or job, letter.to_send, mended=letter.edited is not None)


def _told(ran: DryRun, mode: str) -> dict[str, Any]:
    """Return all that is known, as data."""
    comparison, found = ran.comparison, ran.found or {}
    return {
        "mode": mode,
        "original": ran.recording.job.submission,
        "task": ran.recording.job.operation,
        "sandbox": str(ran.report.layers or "not set up"),
        "ends": str(comparison.ends),
        "said": comparison.said,
        "then": {"outcome": comparison.outcome_then, "failure": comparison.failure_then},
        "now": {"outcome": comparison.outcome, "failure": comparison.failure, "result": found.get("result")},
        "parts_at": comparison.parts_at,
        "steps": [{"then": _said(pair.then), "now": _said(pair.now), "same": pair.same} for pair in comparison.pairs],
        "blocked": [{"what": one.what, "detail": one.detail, "step": one.step} for one in ran.report.blocked],
        **{name: found.get(name) for name in ("state", "state_then", "state_differs", "began_as_then", "published")},
        "left_running": found.get("left_running"),
        "unlike": found.get("unlike"),
        "surroundings": found.get("surroundings"),
        "output": {"stdout": ran.report.stdout.text, "stderr": ran.report.stderr.text},
    }


def _show(ran: DryRun, mode: str) -> None:
    comparison, found = ran.comparison, ran.found or {}
    job = ran.recording.job
    _line("sandbox", str(ran.report.layers or "not set up"))
    click.echo(
        f"{mode} of {printable(job.operation)} {printable(job.task_id)}: "
        + click.style(_shown(comparison.said), fg=_COLOURS.get(comparison.ends, "yellow"), bold=True)
    )
    _line("then", _ending(comparison.outcome_then, comparison.failure_then))
    _line("now", _ending(comparison.outcome, comparison.failure))
    for pair in comparison.pairs if ran.found else ():
        _show_pair(pair)
    _show_state(found)
    _show_outside(ran, found)
    if found.get("unlike"):
        _line("unlike then", ", ".join(found["unlike"]))
    if ran.report.error is not None:
        click.echo(_shown(ran.report.error.traceback))


def _show_outside(ran: DryRun, found: Mapping[str, Any]) -> None:
    """Show what would have left the process, and what it printed."""
    for one, count in Counter(map(str, ran.report.blocked)).most_common(_SOME):
        _line("refused", f"{one}{f', {count} times' if count > 1 else ''}")
    if found.get("published"):
        _line("would publish", ", ".join(found["published"]))
    if found.get("left_running"):
        _line("left running", f"{', '.join(found['left_running'])}: nobody knows what it would have done")
    for name, told in (found.get("surroundings") or {}).items():
        if told:
            _line(name.replace("_", " "), told if isinstance(told, str) else json.dumps(told))
    for name, stream in (("stdout", ran.report.stdout), ("stderr", ran.report.stderr)):
        if stream.text:
            _line(name, stream.text[-_PRINTED:].strip())


def _show_pair(pair: Pair) -> None:
    if pair.same:
        _line("  as then", str(pair.now))
    else:
        _line("  differs", f"then {_said(pair.then) or 'nothing'}, now {_said(pair.now) or 'nothing'}")


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
