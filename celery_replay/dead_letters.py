"""Dead letters: what is filed, in which group, what became of it, and what people may decide. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .clock import Micros, new_id
from .exceptions import TriageRefused
from .facts import Facts
from .records import Failure, Group, HistoryEntry, Job, Letter, StepRecord, evolve
from .serialization import canonical_json, digest, unpack
from .states import Category, Effect, LetterState, Outcome, Reason, StepState, Verb

GROUPING = "g1"
"""Names how groups are made. A group keeps the version that it was made by; a new one makes new groups."""

REPLAYED = "replayed"
"""How a letter was resolved whose replay succeeded."""
_WELL = (Outcome.SUCCEEDED, Outcome.DEDUPLICATED, REPLAYED)
"""How letters are resolved for good: nothing that comes later undoes what was done."""
_OF_THE_FAILURE = (
    "generation", "reason", "category", "error_type", "error_message", "traceback", "group_id", "worker",
    "code_version",
)  # fmt: skip


def draft(
    job: Job,
    now: Micros,
    reason: Reason,
    *,
    failure: Failure | None = None,
    category: Category = Category.UNCLASSIFIED,
    text: str = "",
    message: bytes = b"",
    code_version: str = "",
) -> Letter:
    """Write a letter about a job as it stands now.

    Args:
        failure: what the body raised, if it did; it has a reason and a category of its own.
        text: what to say where there is no exception.
    """
    reason = failure.reason if failure else reason
    frames = failure.frames if failure else ()
    return Letter(
        submission=job.submission,
        operation=job.operation,
        task_id=job.task_id,
        trace_id=job.trace_id,
        correlation_id=job.correlation_id,
        key=job.key,
        generation=job.generation,
        reason=reason,
        category=failure.category if failure else category,
        error_type=failure.type if failure else "",
        error_message=failure.message if failure else text or str(reason),
        traceback=failure.traceback if failure else "",
        group_id=group_id(job.operation, reason, failure.type if failure else "", frames),
        frames="\n".join(frames),
        attempts=max(job.attempts, 1),
        first_seen=now,
        last_failed=now,
        worker=job.worker,
        code_version=code_version,
        message=message,
    )


def group_id(operation: str, reason: Reason, error_type: str, frames: Iterable[str]) -> str:
    """Digest what letters of one cause have in common: the task, the reason, the exception's type, where it came from.

    Functions, not lines, so that an edit above the fault does not make another group; no message, since that tends to
    hold what differs from job to job.
    """
    return f"{GROUPING}:{digest(GROUPING, operation, str(reason), error_type, *frames)}"


def group_of(letter: Letter) -> Group:
    """Describe the letter's group, as if this were its first letter."""
    return Group(
        group_id=letter.group_id,
        operation=letter.operation,
        reason=letter.reason,
        error_type=letter.error_type,
        frames=letter.frames,
        error_message=letter.error_message,
        newest=letter.submission,
        first_seen=letter.last_failed,
        last_seen=letter.last_failed,
    )


def tallies(before: Letter | None, after: Letter) -> list[tuple[Group, int, int]]:
    """Say by how much the counters of groups change: letters filed, and letters that are unresolved."""
    moved = before is not None and before.group_id != after.group_id
    failed = before is None or moved or before.last_failed != after.last_failed
    was = before is not None and before.state.unresolved
    changes = []
    if before is not None and moved and was:
        changes.append((group_of(before), 0, -1))
    unresolved = int(after.state.unresolved) - int(was and not moved)
    if failed or unresolved:
        changes.append((group_of(after), int(failed), unresolved))
    return changes


def file(facts: Facts, letter: Letter) -> Facts:
    """File a letter, one per job: whoever comes first writes it, later failures and those of replays only update it."""
    kept, job = facts.letter, facts.job
    if kept is None:
        return evolve(facts, letter=letter)
    replayed = job is not None and job.original is not None
    if kept.resolved_how in _WELL:
        # What the job or its replay has done, a copy of either that dies later does not undo.
        return facts
    newer = replayed or kept.state is LetterState.RESOLVED or not kept.error_type
    news = {name: getattr(letter, name) for name in (*_OF_THE_FAILURE, "frames")} if newer else {}
    state = _after_failure(kept, job)
    filed = evolve(
        kept,
        **news,
        state=state,
        resolved_how="" if state.unresolved else kept.resolved_how,
        last_failed=letter.last_failed,
        attempts=letter.attempts if replayed else max(kept.attempts, letter.attempts),
        message=kept.message or letter.message,
    )
    return evolve(facts, letter=filed)


def _after_failure(kept: Letter, job: Job | None) -> LetterState:
    pending = kept.state is LetterState.REPLAY_PENDING
    own = job is not None and job.submission == kept.replay
    return LetterState.OPEN if kept.state is LetterState.RESOLVED or (pending and own) else kept.state


def resolve(facts: Facts, how: str) -> Facts:
    """Resolve the letter of a job that ended well after all, or of the one that it replayed."""
    letter, job = facts.letter, facts.job
    if letter is None or not letter.state.unresolved:
        return facts
    if how == Outcome.SUCCEEDED and job is not None and job.original is not None:
        how = REPLAYED
    return evolve(facts, letter=evolve(letter, state=LetterState.RESOLVED, resolved_how=how))


def withdraw(facts: Facts, how: str) -> Facts:
    """Resolve the letter of a job whose message was thrown away: revoked, or expired.

    Once it has been replayed, the replay alone decides what becomes of it: where that is what was withdrawn, the
    letter waits for a decision again.
    """
    letter, job = facts.letter, facts.job
    if letter is None or job is None or not letter.replay:
        return resolve(facts, how)
    if job.submission != letter.replay or letter.state is not LetterState.REPLAY_PENDING:
        return facts
    return evolve(facts, letter=evolve(letter, state=LetterState.OPEN))


def effect_of(job: Job, message: bytes, steps: Iterable[StepRecord]) -> Effect:
    """Say what is known of a failed job's side effects.

    Args:
        message: the original one, which says what the task declares.
        steps: those of the job's key.
    """
    states = {step.state for step in steps}
    if job.unsettled or StepState.CLAIMED in states:
        return Effect.UNKNOWN
    if StepState.SETTLED in states:
        return Effect.PROVEN
    if job.attempts == 0:
        return Effect.ABSENT
    protection = declared(message).get("protection")
    rolled_back = protection == "atomic" and job.status is not Outcome.LOST
    # A body that is one step may have come any part of its way before it raised.
    return Effect.ABSENT if rolled_back or protection == "steps" else Effect.UNKNOWN


def declared(message: bytes) -> dict[str, object]:
    """Return what a kept message says of its task: parameters, and how side effects are protected."""
    try:
        found = unpack(message).get("task") if message else None
    except Exception:  # a stored message may be of any version, or damaged
        return {}
    return found if isinstance(found, dict) else {}


def positions(message: bytes) -> list[str]:
    """Return the parameters that a kept message's positional arguments are for; none where nobody said."""
    found = declared(message).get("parameters")
    try:
        return [str(name) for name, kind, *_ in found if kind.startswith("POSITIONAL_")]  # type: ignore[attr-defined]
    except (AttributeError, TypeError, ValueError):  # a stored message may be of any version, or damaged
        return []


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What somebody wants to be done with a letter."""

    verb: Verb
    actor: str
    text: str = ""
    """The reason, or the note."""
    assignee: str = ""
    edited: bytes | None = None
    """For an edit: the whole message with the mended payload; None goes back to the original."""
    replay: str = ""
    """For a replay: its submission."""
    operation_id: str = ""
    revision: int | None = None
    """The letter's, as it was when this was decided; where it changed meanwhile, nothing is done."""
    details: str = "{}"


_WAITING = (LetterState.OPEN, LetterState.INVESTIGATING)
_UNSENT = (*_WAITING, LetterState.QUARANTINED)
_DECISIONS: dict[Verb, tuple[tuple[LetterState, ...], LetterState | None]] = {
    Verb.INVESTIGATED: ((LetterState.OPEN, LetterState.QUARANTINED), LetterState.INVESTIGATING),
    Verb.QUARANTINED: (_WAITING, LetterState.QUARANTINED),
    Verb.REOPENED: (
        (LetterState.INVESTIGATING, LetterState.QUARANTINED, LetterState.DISCARDED), LetterState.OPEN,
    ),
    Verb.DISCARDED: (_UNSENT, LetterState.DISCARDED),
    Verb.EDITED: (_UNSENT, None),
    Verb.REPLAYED: (_WAITING, LetterState.REPLAY_PENDING),
    Verb.ASSIGNED: (tuple(LetterState), None),
    Verb.NOTED: (tuple(LetterState), None),
    Verb.REVEALED: (tuple(LetterState), None),
    Verb.TRIED: (tuple(LetterState), None),
}  # fmt: skip
"""From which states each decision can be taken, and to which state it leads."""


def allows(state: LetterState, verb: Verb) -> bool:
    """Can a letter in this state be decided about so?"""
    return state in _DECISIONS[verb][0]


def decide(letter: Letter, decision: Decision) -> Letter:
    """Apply a decision.

    Raises:
        TriageRefused: the letter's state does not allow it, or it changed since the decider looked.
    """
    allowed, state = _DECISIONS[decision.verb]
    if letter.state not in allowed:
        raise TriageRefused(_refusal(letter, allowed))
    if decision.revision is not None and decision.revision != letter.revision:
        raise TriageRefused("the letter changed since you looked at it; look again")
    after = evolve(letter, state=state or letter.state)
    match decision.verb:
        case Verb.ASSIGNED:
            return evolve(after, assignee=decision.assignee)
        case Verb.EDITED:
            return evolve(after, edited=decision.edited)
        case Verb.REPLAYED:
            replay, operation_id = decision.replay, decision.operation_id
            return evolve(after, replay=replay, operation_id=operation_id, replays=letter.replays + 1)
        case _:
            return after


def leaving_out(wanted: Decision, why: str, **details: object) -> Decision:
    """Return the note that a decision was not carried out on a letter."""
    told = canonical_json({"wanted": wanted.verb, **details})
    return evolve(wanted, verb=Verb.LEFT_OUT, text=why, details=told)


def _refusal(letter: Letter, allowed: Iterable[LetterState]) -> str:
    if letter.state is LetterState.REPLAY_PENDING:
        return f"it is being replayed already, as {letter.replay}; wait for its end"
    return f"it is {letter.state}, and must be {' or '.join(allowed)} for that"


def entry(decision: Decision, now: Micros, *, submission: str = "", group_id: str = "") -> HistoryEntry:
    """Write down who decided what."""
    return HistoryEntry(
        entry_id=new_id(),
        at=now,
        verb=decision.verb,
        actor=decision.actor,
        submission=submission,
        group_id=group_id,
        operation_id=decision.operation_id,
        text=decision.text,
        details=decision.details,
    )


def happened(before: Letter | None, after: Letter, now: Micros) -> HistoryEntry | None:
    """Write down what became of a letter without anybody's decision."""
    if before is None or before.state is after.state:
        return None
    verb, text = Verb.RESOLVED, after.resolved_how
    if after.state.unresolved:
        failed = after.last_failed != before.last_failed
        verb, text = Verb.FAILED_AGAIN, _failure(after) if failed else "withdrawn before it began"
    return HistoryEntry(
        entry_id=new_id(),
        at=now,
        verb=verb,
        submission=after.submission,
        group_id=after.group_id,
        operation_id=before.operation_id if before.state is LetterState.REPLAY_PENDING else "",
        text=text,
    )


def _failure(letter: Letter) -> str:
    return f"{letter.error_type}: {letter.error_message}"[:500].lstrip(": ")
