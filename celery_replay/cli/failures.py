"""`replay failures`: what kind of failure an error is, and what its task does about it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import click
from celery import Task

from ..failures import blank
from ..records import Letter
from ..retries.builtin import BUILT_IN
from ..retries.policy import ONLY_TOLD, FailurePolicy, decide, most_attempts
from ..retries.rules import Judgement
from ..runtime import Runtime
from ..trace import timeline
from . import options
from .access import find_letter, runtime
from .output import nothing_found, print_record, print_rows, to_json

_TOLD = ("retry_decided", "retry_refused", "failed")
"""Events that say how a failure was judged."""


@click.group(epilog=options.example("failures explain requests.exceptions.ConnectTimeout"))
def failures() -> None:
    """See how failures are classified, and what follows."""


@failures.command(epilog=options.example("failures explain requests.exceptions.HTTPError --status 503"))
@click.argument("error")
@click.option("--task", default="", help="By the rules and the policy of this task, too.")
@click.option("--status", type=click.IntRange(100, 599), help="As if an HTTP answer with this status had led to it.")
@click.option("--attempt", type=click.IntRange(1), default=1, show_default=True, help="After so many attempts.")
@options.as_json
@click.pass_context
def explain(ctx: click.Context, error: str, task: str, status: int | None, attempt: int, as_json: bool) -> None:
    """Say what kind of failure an error is, by which rule, and whether its job would be tried again.

    ERROR is a class as `module.Class`, or a dead letter by any name of its job; of that is told what was decided then.
    """
    here = runtime(ctx)
    letter = find_letter(here.store, error)
    if letter is not None:
        told = _recorded(here, letter)
        shown = {"task": letter.operation, "error": letter.error_type, "category": str(letter.category)}
    else:
        told = []
        shown = _judged(_policy(here, task), _example(error, status), attempt, _most(here, task))
    if as_json:
        click.echo(to_json({**shown, "recorded": told} if letter is not None else shown))
        return
    print_record(shown)
    if told:
        click.echo("\nwhat was decided")
        print_rows(told, ("attempt", "event", "category", "rule", "because", "decision"), as_json=False)


@failures.command(epilog=options.example("failures rules --task shop.tasks.ship_order"))
@click.option("--task", default="", help="The rules of this task come first.")
@options.as_json
@click.pass_context
def rules(ctx: click.Context, task: str, as_json: bool) -> None:
    """List the rules in the order in which they are asked."""
    here = runtime(ctx)
    policy = _policy(here, task)
    own = [{"rule": one.name, "of": "the task", "errors": ", ".join(one.kinds)} for one in policy.rules]
    built_in = [{"rule": one.name, "of": "celery-replay", "errors": ", ".join(one.kinds)} for one in BUILT_IN]
    print_rows([*own, *built_in], ("rule", "of", "errors"), as_json=as_json)


def _policy(here: Runtime, name: str) -> FailurePolicy:
    return here.policy(_task(here, name)).failures or ONLY_TOLD if name else ONLY_TOLD


def _most(here: Runtime, name: str) -> int | None:
    return most_attempts(_task(here, name).max_retries if name else Task.max_retries)


def _task(here: Runtime, name: str) -> Any:
    task = here.app.tasks.get(name)
    if task is None:
        nothing_found(f"there is no task {name} in this project")
    return task


def _example(name: str, status: int | None) -> BaseException:
    """Make an error of a class, without its own code; of a class that can't be imported one that is called so."""
    module, _, kind = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module or "builtins"), kind)
    except (ImportError, AttributeError, ValueError):
        found = None
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        if not module:
            raise click.UsageError(f"{name} is neither a dead letter nor an error's class, such as module.Class")
        found = type(kind, (Exception,), {"__module__": module})
    error: Any = blank(found)
    if status is not None:
        for attribute, value in (("response", SimpleNamespace(status_code=status, headers={})), ("code", status)):
            try:
                setattr(error, attribute, value)
            except AttributeError:
                continue
    made: BaseException = error
    return made


def _judged(policy: FailurePolicy, error: BaseException, made: int, most: int | None) -> dict[str, Any]:
    judged: Judgement = policy.judge(error, made)
    decision = decide(policy, judged, made=made, most=most, age_s=0, seed="")
    declared = policy is not ONLY_TOLD
    return {
        "error": f"{type(error).__module__}.{type(error).__qualname__}",
        "category": str(judged.category),
        "rule": judged.rule or None,
        "because": judged.because,
        "tried_again": declared and decision.delay_s is not None,
        "said": decision.said if declared else "the task declares no failures=, so Celery decides on retries",
        "then": str(policy.of(judged.category)) if declared else None,
    }


def _recorded(here: Runtime, letter: Letter) -> Sequence[dict[str, Any]]:
    generations = {attempt.nonce: attempt.generation + 1 for attempt in here.store.attempts(letter.submission)}
    job = here.store.job(letter.submission)
    events = timeline(here.store, job.trace_id) if job is not None else []
    return [
        {
            "attempt": generations.get(event.attempt),
            "event": event.name,
            **{name: event.attributes.get(name) for name in ("category", "rule", "because", "decision")},
        }
        for event in events
        if event.name in _TOLD
    ]
