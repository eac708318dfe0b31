"""Options of `replay run --mode fork`: what is to be otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from ..dry_run.variation import DEPTH, MOST_DEPTH, MOST_JOBS, Cache, Variation, VariationUnfit
from ..snapshots.capture import BEFORE
from . import options

_OPTIONS = (
    click.option("--set", "arguments", multiple=True, metavar="ARG=JSON", help="Fork with another argument."),
    click.option(
        "--stub", "stubs", multiple=True, metavar="STEP=JSON", help="Fork: what a step gives, whatever is recorded."
    ),
    click.option(
        "--option", "options", multiple=True, metavar="NAME=JSON", help="Fork with another option of the task."
    ),
    click.option("--live", multiple=True, metavar="STEP", help="Fork: run this step's own code, in the sandbox."),
    click.option(
        "--at",
        metavar="STEP",
        help="Fork: from this step on, or from this snapshot on, steps run their own code, in the sandbox.",
    ),
    click.option(
        "--from",
        "begin_with",
        default=BEFORE,
        metavar="SNAPSHOT",
        help="Fork: begin with this recorded snapshot, such as after; by default before.",
    ),
    click.option(
        "--cache",
        type=options.word(Cache),
        default=Cache.RECORDED,
        help="Fork: what is in the caches. recorded, by default: what was read then; bypass: nothing is ever found; "
        "sandbox: what the run writes.",
    ),
    click.option("--follow", is_flag=True, help="Fork: run what it publishes, too, in the same sandbox."),
    click.option(
        "--depth",
        type=click.IntRange(1, MOST_DEPTH),
        default=DEPTH,
        show_default=True,
        help="How deep that is followed.",
    ),
    click.option(
        "--jobs",
        "follow_jobs",
        type=click.IntRange(1, MOST_JOBS),
        default=Variation.follow_jobs,
        show_default=True,
        help="How many jobs are followed at most.",
    ),
    click.option(
        "--ignore", multiple=True, metavar="NAME", help="Fields, steps or states whose differences are noise, as *_at."
    ),
)


def varied(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets one `variation`."""

    @wraps(command)
    def with_variation(*args: Any, **kwargs: Any) -> Any:
        given, depth = {name: kwargs.pop(name) for name in _NAMES}, kwargs.pop("depth")
        try:
            variation = Variation(
                **{
                    **given,
                    "arguments": _pairs(given["arguments"], "--set"),
                    "follow": depth if given["follow"] else 0,
                    "stubs": _pairs(given["stubs"], "--stub"),
                    "options": _pairs(given["options"], "--option"),
                }
            )
        except VariationUnfit as error:
            raise click.UsageError(error.message) from error
        return command(*args, variation=variation, **kwargs)

    decorated: Callable[..., Any] = with_variation
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_NAMES = ("arguments", "stubs", "live", "at", "begin_with", "options", "cache", "follow", "follow_jobs", "ignore")


def _pairs(texts: Sequence[str], option: str) -> dict[str, Any]:
    return dict(options.pair(text, option) for text in texts)
