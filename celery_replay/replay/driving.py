"""An operation, driven: its letters are sent portion by portion, and the ends of their replays are counted.

Whoever drives may be killed between any two steps, and any number may drive at once. A letter is sent if it is as it
was when it was chosen, and that it was sent changes it: so the second who comes to it finds that out, from the letter
or its history. The record of the operation is written last, and only by whoever saw it as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from .. import dead_letters, operations, parking
from ..clock import new_id
from ..dead_letters import Decision
from ..exceptions import TriageRefused
from ..operations import Conditions
from ..records import Operation, Row
from ..runtime import Runtime
from ..states import Verb
from ..stores.base import Store
from . import following
from .following import End
from .message import PayloadUnreadable
from .operations import awaited_of
from .plan import Item, Options
from .sending import Begun, Chosen, Order, begin, choose

BATCH = 10
"""So many letters are sent before it is looked whether the operation still runs."""
_TRIES = 3
_MANY = 20
"""Operations that are driven in one go."""
Step = Callable[[Operation], Operation]


def start(
    runtime: Runtime,
    items: Sequence[Item],
    *,
    actor: str,
    reason: str,
    conditions: Conditions,
    options: Options,
    operation_id: str = "",
) -> Operation:
    """Freeze the letters that are ready, and let stewards send them; why others are left out is written down.

    Args:
        operation_id: by which it is found; begun twice, it is still one.

    Raises:
        TriageRefused: it was begun before.
    """
    ready = [choose(runtime, item, options).frozen() for item in items if item.ready]
    operation = Operation(
        operation_id=operation_id or new_id(),
        actor=actor,
        reason=reason,
        options=conditions.told(),
        total=len(ready),
        keep_us=int(runtime.settings.retention * 1_000_000),
    )
    wanted = Decision(verb=Verb.REPLAYED, actor=actor, operation_id=operation.operation_id)
    refused = [
        (item.letter.submission, dead_letters.leaving_out(wanted, item.said, hindrance=item.hindrance))
        for item in items
        if not item.ready
    ]
    return runtime.store.begin_operation(operation, operations.portions(operation.operation_id, ready), refused)


def drive_all(runtime: Runtime) -> int:
    """Do what is due of the operations that have something to do; return how many letters were come to."""
    return sum(drive(runtime, operation) for operation in runtime.store.active_operations(_MANY))


def drive(runtime: Runtime, operation: Operation) -> int:
    """Count the ends of an operation's replays, and send its next letters; return how many it has come to."""
    steps: list[Step] = [
        partial(_counted, letter=ended.submission, end=ended.end)
        for ended in following.look(runtime.store, operations.pending(operation), operation.operation_id)
    ]
    # Before anything more is sent, and again where this is written: by what has ended, not by what is sent now.
    steps.append(operations.judged)
    known = _after(operation, steps)
    passed = [*_passed(runtime, known)]
    _write(runtime.store, operation, [*steps, *passed])
    return len(passed)


def _after(operation: Operation, steps: Sequence[Step]) -> Operation:
    for step in steps:
        operation = step(operation)
    return operation


def _counted(operation: Operation, letter: str, end: End) -> Operation:
    if letter not in operations.pending(operation):
        return operation
    well = {End.RESOLVED: True, End.FAILED_AGAIN: False}.get(end)
    return operations.ended(operation, letter, well=well)


def _passed(runtime: Runtime, operation: Operation) -> Iterator[Step]:
    """Send the letters that are due; yield for each what that changes."""
    store = runtime.store
    now = store.now()
    count = min(operations.due(operation, now), BATCH)
    for chosen in islice(_from(store, operation), count):
        begun = _begun(runtime, operation, chosen)
        if begun is None:
            yield operations.left_out
            continue
        replay, row = begun
        yield partial(operations.sent, letter=chosen.letter, replay=replay, now=now)
        if row is not None and not parking.dispatch(runtime.app, store, [row], runtime.resend_us):
            # A broker that does not answer is waited for once; what it did not take is sent later.
            return


def _from(store: Store, operation: Operation) -> Iterator[Chosen]:
    """Return the letters that an operation has not come to."""
    return map(Chosen.of, awaited_of(store, operation))


def _begun(runtime: Runtime, operation: Operation, chosen: Chosen) -> tuple[str, Row | None] | None:
    """Decide one replay; return its submission and what is to be published, or None where it is left out."""
    store = runtime.store
    order = Order(
        actor=operation.actor,
        reason=operation.reason,
        with_canvas=operations.conditions(operation).with_canvas,
        operation_id=operation.operation_id,
    )
    try:
        begun: Begun = begin(runtime, chosen, order)
    except (TriageRefused, PayloadUnreadable) as refusal:
        replay = _sent_before(store, operation, chosen.letter)
        if replay:
            return replay, None
        wanted = Decision(verb=Verb.REPLAYED, actor=operation.actor, operation_id=operation.operation_id)
        store.write_down([(chosen.letter, dead_letters.leaving_out(wanted, refusal.message))])
        return None
    return begun.submission, begun.row


def _sent_before(store: Store, operation: Operation, letter: str) -> str:
    """Return the replay that this operation has begun of a letter; whoever did that may not have come to write it."""
    found = store.letter(letter)
    if found is not None and found.operation_id == operation.operation_id:
        return found.replay
    for entry in store.history(submission=letter, operation_id=operation.operation_id):
        if entry.verb is Verb.REPLAYED:
            return str(json.loads(entry.details).get("replay", ""))
    return ""


def _write(store: Store, operation: Operation, steps: Sequence[Step]) -> None:
    """Write what has happened; also where somebody has paused or ended the operation meanwhile."""
    before = operation
    for _ in range(_TRIES):
        after = operations.judged(_after(before, steps))
        if after == before:
            return
        try:
            store.change_operation(before, after)
        except TriageRefused:
            found = store.operation(operation.operation_id)
            if found is None or found.position != operation.position:
                # Another one has driven it: what is not in its record is found out again.
                return
            before = found
        else:
            return
