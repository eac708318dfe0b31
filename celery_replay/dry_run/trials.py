"""Carries an order of dry runs out: several at a time, and tells what came out in the history of each letter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..dead_letters import Decision
from ..exceptions import ReplayError, TriageRefused
from ..records import Letter, evolve
from ..redaction import kept_text
from ..runtime import Runtime, runtime_of
from ..states import Capture, Verb
from ..stores.base import Store
from . import letters as dry_runs
from .engine import Begun, DryRun, Engine, NotRunnable
from .orders import PATIENCE_S, Order
from .several import cores, run_several
from .telling import kept_of
from .variation import Variation
from .verdicts import NOT_RUN, REFUSED, Verdicts, summed

_SAID = 1_000


def carry_out(app: Any, order: Order) -> None:
    """Do what is left to do of an order. A process without other threads is to call it: it forks."""
    runtime = runtime_of(app)
    store = runtime.store
    waiting = left(store, order)
    if not waiting:
        return
    begun = Decision(verb=Verb.TRIAL_BEGUN, actor="", text=f"on {runtime.hostname}", operation_id=order.operation_id)
    store.write_down([(waiting[0], begun)])
    verdicts = Verdicts()
    with Engine(app, timeout_s=PATIENCE_S, require_kernel=runtime.settings.trial_kernel) as engine:
        wanted = _letters(store, order, waiting)
        for letter, ran in run_several(wanted, lambda letter: _begin(engine, runtime, order, letter), cores()):
            verdicts.add(letter.group_id, ran)
            tell(store, letter.submission, _told(runtime, order, letter, ran))
    if len(order.letters) > 1:
        verdicts.note(store, order.actor)


def left(store: Store, order: Order) -> list[str]:
    """Return which letters of an order nothing is told of yet: its message may come twice."""
    told = {e.submission for e in store.history(operation_id=order.operation_id, limit=5_000) if e.verb is Verb.TRIED}
    return [submission for submission in order.letters if submission not in told]


def refuse(store: Store, order: Order, why: str) -> None:
    """Tell of what is left of an order that it can't be done."""
    for submission in left(store, order):
        tell(store, submission, _decision(order, {"ends": REFUSED, "said": kept_text(why, _SAID)}))


def tell(store: Store, submission: str, decision: Decision) -> None:
    """Write down what came out, unless its data was erased meanwhile, or it changed: then only that."""
    try:
        store.decide(submission, decision)
    except TriageRefused as refusal:
        if store.letter(submission) is not None:
            kept = {"ends": REFUSED, "said": refusal.message, "summed": NOT_RUN}
            told = evolve(decision, text=refusal.message, details=json.dumps(kept), revision=None)
            store.write_down([(submission, told)])


def _letters(store: Store, order: Order, submissions: list[str]) -> Iterator[Letter]:
    for submission in submissions:
        letter = store.letter(submission)
        if letter is not None:
            yield letter


def _begin(engine: Engine, runtime: Runtime, order: Order, letter: Letter) -> Begun:
    if letter.revision != order.letters[letter.submission]:
        raise NotRunnable("it changed since it was chosen; choose it again")
    variation = Variation.of_data(order.changes.variation)
    message = order.changes.message(runtime, letter)
    return engine.begin(dry_runs.recorded(runtime.store, letter, message, depth=variation.follow), variation)


def _told(runtime: Runtime, order: Order, letter: Letter, ran: DryRun | ReplayError) -> Decision:
    if isinstance(ran, ReplayError):
        return _decision(order, {"ends": REFUSED, "said": kept_text(ran.message, _SAID)})
    task = runtime.app.tasks[ran.recording.job.operation]
    values = runtime.policy(task).capture is not Capture.NONE
    kept = {
        **kept_of(ran, order.changes.mode, values=values),
        "code": runtime.code["code"],
        "summed": kept_text(summed(ran), 200),
    }
    return evolve(_decision(order, kept), revision=order.letters[letter.submission])


def _decision(order: Order, kept: dict[str, Any]) -> Decision:
    kept = {"mode": order.changes.mode, "summed": NOT_RUN, **kept}
    return Decision(
        verb=Verb.TRIED,
        actor="",
        text=str(kept["said"])[:_SAID],
        operation_id=order.operation_id,
        details=json.dumps(kept),
    )
