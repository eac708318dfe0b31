"""`replay export`: a recorded job as a test of its own."""

from __future__ import annotations

from pathlib import Path

import click

from ..dry_run.bundle import SUFFIX, exported
from ..dry_run.comparison import Ends
from . import options
from .access import runtime
from .runs import recorded

EXPECTED = (Ends.WELL, Ends.SAME, Ends.OTHERWISE, Ends.RETRIES)


@click.command(epilog=options.example("export 5b5e0c0e-6d5f-4a3c-8f0e-0f4b5a3f9d11 --output tests/gift.replay.json"))
@click.argument("job_id")
@click.option(
    "--expect", type=options.word(Ends), default=Ends.WELL, help="How the test is to end: succeeds by default."
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="The file; by default it is printed.")
@click.pass_context
def export(ctx: click.Context, job_id: str, expect: Ends, output: Path | None) -> None:
    """Write a recorded job down as a test that needs no service: pytest runs *.replay.json as dry runs.

    Secrets are left out, by the names of arguments and fields; read the file before you give it away. pytest is told of
    the app by its setting celery_replay_app.
    """
    if expect not in EXPECTED:
        raise click.BadParameter(f"no test is to end so; take {', '.join(EXPECTED)}", param_hint="--expect")
    if output is not None and not output.name.endswith(SUFFIX):
        raise click.BadParameter(f"pytest collects files whose names end with {SUFFIX}", param_hint="--output")
    text = exported(recorded(runtime(ctx), job_id), expect)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text)
    except OSError as error:
        raise click.FileError(str(output), error.strerror) from error
    click.echo(f"written: {output}")
