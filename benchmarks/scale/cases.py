"""All that a store keeps of one job that failed."""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Iterator
from functools import cache
from typing import Any

from celery_replay.clock import SECOND, Micros, new_id
from celery_replay.records import AttemptRecord, Chunk, HistoryEntry, Job, Letter, StepRecord, evolve
from celery_replay.serialization import digest, pack
from celery_replay.states import AckMode, Effect, LetterState, Outcome, Reason, StepState, Verb
from celery_replay.trace import Recorder

from .population import Cause, Population

DAY: Micros = 24 * 3600 * SECOND
KEPT: Micros = 30 * DAY
VARIETIES = 8
"""How many messages and traces each task or cause has: making a million of them would take longer than all the rest."""
Case = tuple[Any, ...]

_JOB = Job(
    submission="", operation="", task_id="", trace_id="", correlation_id="", canvas_advanced=True, ack=AckMode.LATE,
    redelivery_us=3_900 * SECOND,
)  # fmt: skip
_LETTER = Letter(
    submission="", operation="", task_id="", trace_id="", correlation_id="", reason=Reason.EXCEPTION, first_seen=0,
    last_failed=0, code_version="2026.11.2+g7c1f2aa",
)  # fmt: skip
_ATTEMPT = AttemptRecord(
    nonce="", submission="", trace_id="", operation="", generation=0, outcome=Outcome.FAILED, fence=0, worker="",
    pid=0, started_at=0, ended_at=0,
)  # fmt: skip
_VERBS = {
    LetterState.INVESTIGATING: Verb.INVESTIGATED,
    LetterState.QUARANTINED: Verb.QUARANTINED,
    LetterState.REPLAY_PENDING: Verb.REPLAYED,
    LetterState.RESOLVED: Verb.RESOLVED,
    LetterState.DISCARDED: Verb.DISCARDED,
}
_DEATHS = (Reason.WORKER_LOST, Reason.HARD_TIME_LIMIT, Reason.RETRY_NEVER_CAME)


def case(population: Population, number: int, at: Micros, cause: Cause, chance: random.Random) -> Iterator[Any]:
    """Make one letter with its job, attempts, events, steps and history.

    Args:
        number: no other case has it.
        at: when it failed for good.
    """
    submission, task_id = new_id(lambda: at), str(uuid.UUID(int=chance.getrandbits(128), version=4))
    state = _state((at - population.start) / (population.end - population.start), chance)
    key = f"{cause.operation.rpartition('.')[2]}:{number}" if chance.random() < 0.6 else ""
    tries = chance.choices((1, 2, 3, 4, 5), (70, 15, 8, 4, 3))[0]
    text = cause.text.format(n=number)
    origin = {
        "submission": submission,
        "operation": cause.operation,
        "task_id": task_id,
        "trace_id": task_id,
        "correlation_id": task_id,
        "key": key,
        "generation": tries - 1,
        "attempts": tries,
        "worker": f"celery@worker-{number % 12}",
    }
    job = evolve(
        _JOB,
        **origin,
        claim=digest(cause.operation, key) if key else None,
        fingerprint=f"b1:{digest(task_id)}",
        status=Outcome.LOST if cause.reason in _DEATHS else Outcome.FAILED,
        nonce=f"{submission[:12]}{tries:020}",
        fence=at,
        letter=state.unresolved,
        failure=json.dumps({"type": cause.error_type, "message": text[:500], "reason": cause.reason}),
        pid=1000 + number % 50,
        published_at=at - 60 * SECOND,
        started_at=at - 2 * SECOND,
        closed_at=at,
        keep_until=at + KEPT,
    )
    yield job
    yield _letter(job, cause, state, text, origin, at)
    for attempt in range(tries):
        yield from _attempt(job, cause, attempt, tries, at)
    if cause.effect is Effect.PROVEN:
        yield _step(job, at)
    yield from _history(job, cause, state, at, chance)


def _state(age: float, chance: random.Random) -> LetterState:
    """Return what is likely at an age, of which 0 is the oldest and 1 the newest: most old ones are decided."""
    rare = chance.random()
    if rare < 0.0001:
        return LetterState.REPLAY_PENDING
    if rare < 0.003:
        return LetterState.INVESTIGATING
    if rare < 0.013:
        return LetterState.QUARANTINED
    states = (LetterState.OPEN, LetterState.RESOLVED, LetterState.DISCARDED)
    return chance.choices(states, (0.1 + 0.85 * age**2, 0.6 - 0.5 * age, 0.3 - 0.25 * age))[0]


def _letter(job: Job, cause: Cause, state: LetterState, text: str, origin: dict[str, Any], at: Micros) -> Letter:
    replayed = state in (LetterState.RESOLVED, LetterState.REPLAY_PENDING)
    return evolve(
        _LETTER,
        **origin,
        state=state,
        reason=cause.reason,
        category=cause.category,
        error_type=cause.error_type,
        error_message=text,
        traceback=cause.traceback.replace("{text}", text),
        group_id=cause.group_id,
        frames="\n".join(cause.frames),
        effect=cause.effect,
        first_seen=at,
        last_failed=at,
        resolved_how="replayed" if state is LetterState.RESOLVED else "",
        message=_message(cause.operation, job.fence % VARIETIES),
        replay=digest(job.submission) if replayed else "",
        operation_id=f"{at // DAY:032}" if replayed else "",
        replays=int(replayed),
        revision=int(state is not LetterState.OPEN),
    )


def _attempt(job: Job, cause: Cause, number: int, tries: int, at: Micros) -> Iterator[Any]:
    started = at - (2 + 30 * (tries - 1 - number)) * SECOND
    nonce = f"{job.nonce[:12]}{number + 1:020}"
    last = number == tries - 1
    yield evolve(
        _ATTEMPT,
        nonce=nonce + job.submission[-12:],
        submission=job.submission,
        trace_id=job.trace_id,
        operation=job.operation,
        generation=number,
        outcome=job.status if last else Outcome.RETRY_SCHEDULED,
        fence=started,
        worker=job.worker,
        pid=job.pid,
        started_at=started,
        ended_at=started + 2 * SECOND,
        note=str(cause.reason) if job.status is Outcome.LOST else "",
    )
    body, count = _events(cause.operation, cause.error_type, cause.text, job.fence % VARIETIES)
    yield Chunk(
        trace_id=job.trace_id, nonce=nonce + job.submission[-12:], first=1, count=count, body=body, recorded_at=started
    )


def _step(job: Job, at: Micros) -> StepRecord:
    return StepRecord(
        scope=job.identity,
        key=f"label:{job.key}",
        name="buy_label",
        state=StepState.SETTLED,
        nonce=job.nonce,
        output='{"label": "JD0146000039", "price": "4.90"}',
        claimed_at=at - SECOND,
    )


def _history(job: Job, cause: Cause, state: LetterState, at: Micros, chance: random.Random) -> Iterator[HistoryEntry]:
    actor = chance.choice(("ann", "bob", "carol"))
    about = {"submission": job.submission, "group_id": cause.group_id, "actor": actor}
    if chance.random() < 0.2:
        yield HistoryEntry(entry_id=new_id(), at=at + 1, verb=Verb.NOTED, text="asked the carrier, see #4711", **about)
    if state is not LetterState.OPEN:
        operation_id = f"{at // DAY:032}"
        yield HistoryEntry(
            entry_id=new_id(), at=at + 2, verb=_VERBS[state], text="batch", operation_id=operation_id, **about
        )


@cache
def _message(operation: str, variety: int) -> bytes:
    """Make a message as the parking lot keeps it: about a kilobyte of arguments."""
    chance = random.Random(f"{operation}/{variety}")
    lines = [{"sku": f"A-{chance.randrange(10**6)}", "count": chance.randint(1, 9)} for _ in range(variety * 4)]
    arguments = {"order_id": chance.randrange(10**9), "lines": lines, "card_token": f"{chance.getrandbits(64):x}"}
    embedded = dict.fromkeys(("callbacks", "errbacks", "chain", "chord"))
    return pack(
        {
            "v": 1,
            "task": {"parameters": list(arguments), "protection": ""},
            "headers": {"lang": "py", "task": operation, "retries": 0, "origin": "gen7@web-3", "argsrepr": "()"},
            "body": base64.b64encode(json.dumps([[], arguments, embedded]).encode()).decode(),
            "content_type": "application/json",
            "content_encoding": "utf-8",
            "exchange": "",
            "routing_key": "celery",
            "priority": 0,
            "properties": {},
        }
    )


@cache
def _events(operation: str, error_type: str, text: str, variety: int) -> tuple[bytes, int]:
    """Make an attempt's events as the recorder packs them: about ten."""
    recorder = Recorder("", "", {"job": operation, "worker": "celery@worker-3/1003", "key": f"order:{variety}"})
    recorder.record("received")
    recorder.record("started", plain={"celery": "5.7.0", "python": "3.11.7", "code": "2026.11.2", "acks_late": True})
    for number in range(3 + variety % 4):
        recorder.record("entity_loaded", domain=True, attributes={"kind": "order", "pk": number, "version": variety})
        if number % 2:
            recorder.record("step_done", step="buy_label", side_effect=True)
    recorder.record("failed", status="fail", attributes={"error": error_type, "message": text[:200]})
    recorder.record("dead_lettered")
    (chunk,) = recorder.take()
    return chunk.body, chunk.count
