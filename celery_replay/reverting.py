"""Revert an attempt: put back what it changed of the state that its task declares."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .clock import new_id
from .dead_letters import Decision
from .exceptions import TriageRefused
from .records import Job
from .runtime import Runtime
from .snapshots.capture import AFTER, BEFORE
from .snapshots.changes import changes
from .snapshots.reading import Taken, numbered
from .snapshots.reversal import Reversal
from .snapshots.tree import Tree
from .states import Verb
from .trace import Recorder, timeline


def snapshots_of(runtime: Runtime, job: Job, number: int = 0) -> tuple[Taken, Taken]:
    """Return the snapshots before and after the body of one of a job's attempts.

    Args:
        number: as `trace show` counts them; by default the last that has both.

    Raises:
        TriageRefused: there are none.
    """
    store = runtime.store
    found: dict[str, dict[str, Taken]] = {}
    for count, one in numbered(job, timeline(store, job.trace_id), store.attempts(job.submission)):
        if number in (0, count):
            found.setdefault(one.attempt, {})[one.when] = one
    whole = [moments for moments in found.values() if {BEFORE, AFTER} <= moments.keys()]
    if not whole:
        which = f"attempt #{number}" if number else "any of its attempts"
        raise TriageRefused(f"there is no snapshot before and after {which}; does its task declare state=?")
    return whole[-1][BEFORE], whole[-1][AFTER]


def look(runtime: Runtime, job: Job, pair: tuple[Taken, Taken], **options: str) -> Sequence[Reversal]:
    """Look what would be put back, and what can't be; nothing is written.

    Args:
        options: using, version_field; as for `Reverter.revert`.
    """
    return _revert(runtime, job, pair, apply=False, partly=False, **options)


def apply(
    runtime: Runtime,
    job: Job,
    pair: tuple[Taken, Taken],
    actor: str,
    text: str,
    *,
    partly: bool = False,
    **options: str,
) -> Sequence[Reversal]:
    """Put back what an attempt changed, and write down who did so.

    Args:
        text: why.
        partly: what can be; otherwise nothing where something can't.

    Raises:
        TriageRefused: the job runs.
    """
    if not job.status.over:
        raise TriageRefused(f"it has not ended: it is {job.status}")
    done = _revert(runtime, job, pair, apply=True, partly=partly, **options)
    refused = sum(bool(one.refusal) for one in done)
    if done and (partly or not refused):
        details: dict[str, Any] = {"attempt": pair[0].attempt, "records": len(done) - refused, "refused": refused}
        decision = Decision(verb=Verb.REVERTED, actor=actor, text=text, details=json.dumps(details))
        runtime.store.write_down([(job.submission, decision)])
        recorder = Recorder(job.trace_id, new_id(), {"job": job.task_id})
        recorder.record("reverted", side_effect=True, attributes={**details, "actor": actor, "because": text})
        runtime.store.flush(chunks=recorder.take())
    return done


def _revert(runtime: Runtime, job: Job, pair: tuple[Taken, Taken], **options: Any) -> Sequence[Reversal]:
    before, after = (Tree(one.reference, runtime.store.blobs) for one in pair)
    found = list(changes(before, after))
    task = runtime.app.tasks.get(job.operation, runtime.app.Task)
    provider = next((one for one in task.replay_state if one.reverts), None)
    if provider is None:
        return [Reversal(change=one, refusal="nothing here knows how to put it back") for one in found]
    reversals: Sequence[Reversal] = provider.revert(found, **options)
    return reversals
