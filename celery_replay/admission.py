"""OPEN: may this delivery run now? One pure function of the stored facts.

The lines are asked in order and the first that applies decides. They were walked by a model checker: with any one of
them off, a job is lost, a chord hangs or an effect happens twice. `docs/explanation/lifecycle.md` has the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import dead_letters, leases, refusals
from .clock import Micros
from .facts import Change, Delivery, Facts, Place, alive, died, park, reserved
from .records import AttemptRecord, Job, Row, evolve, filled, form
from .states import AckMode, OnIncomplete, Outcome, Reason, RowStatus, Verdict


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What a delivery tells OPEN about itself and its task."""

    delivery: Delivery
    nonce: str
    task_id: str
    trace_id: str
    correlation_id: str
    causation_id: str | None = None
    key: str = ""
    claim: str | None = None
    fingerprint: str | None = None
    published_at: Micros | None = None
    expires_at: Micros | None = None
    lease_us: Micros
    canvas_us: Micros
    """How long a closed attempt may take to send its canvas on before another one does."""
    keep_us: Micros
    redelivery_us: Micros
    ack: AckMode
    is_step: bool = False
    """The whole body is one side-effect step: claimed here, settled in CLOSE."""
    on_incomplete: OnIncomplete = OnIncomplete.RESUME
    refuse_failed: bool = False
    poison_cap: int = 5
    original: str | None = None
    """For a replay: the submission whose dead letter it is about."""
    accepts_unknown: bool = False
    """For a replay: an operator accepts that an effect of which nobody knows may happen again."""
    worker: str = ""
    pid: int = 0
    code_version: str = ""
    resources: tuple[str, ...] = ()
    """Names of what it takes a lease on, sorted, each once."""
    backs_off: bool = False
    """It looks again after a while where they are leased, in place of standing in line."""
    guards: bool = False
    """It declares a target that checks its token."""

    @property
    def identity(self) -> str:
        """What the submission claims: its key, or itself."""
        return self.claim or self.delivery.submission


@dataclass(frozen=True, kw_only=True)
class Admission(Change):
    """OPEN's answer."""

    verdict: Verdict
    reason: Reason | None = None
    incomplete: bool = False
    """RUN after an attempt that died with its side effect unsettled: the task's `on_incomplete` applies."""
    source: Job | None = None
    """For FIRST_RESULT: the job whose result is returned."""
    behind: Place | None = None
    """For PARKED behind a lease: the resource."""
    requeues: int = 0
    """How often in a row the body has given this message back."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A delivery before OPEN."""

    facts: Facts
    ask: Ask
    now: Micros

    @property
    def job(self) -> Job | None:
        """The submission's own record."""
        return self.facts.job

    @property
    def generation(self) -> int:
        """The delivery's number."""
        return self.ask.delivery.generation

    @property
    def decided(self) -> bool:
        """Is this a replay of the job that holds the key? Then a person has seen that it failed."""
        holder, original = self.facts.holder, self.ask.original
        return holder is not None and original is not None and original in (holder.submission, holder.original)


def first_job(ask: Ask, now: Micros) -> Job:
    """Write the record of a job whose first delivery is admitted: no line applies to one of which nothing is known.

    Nor of its key. Only a deadline may have passed.
    """
    values = {
        **_said(ask, now),
        "claim": ask.claim,
        "fence": now,
        "lease_until": now + ask.lease_us,
        "unsettled": ask.is_step,
        "attempts": 1,
        "message": ask.delivery.message() if ask.ack is AckMode.EARLY else None,
    }
    return filled(_BLANK, values)


def admitted(job: Job) -> Admission:
    """Answer a delivery of which nothing was known."""
    return evolve(_FIRST, facts=evolve(_NOTHING, job=job))


def admit(facts: Facts, ask: Ask, now: Micros) -> Admission:
    """Decide what a delivery does.

    Args:
        facts: what the store has of the submission, of its key and of the resources that it names, read in the same
            atomic step as the answer is written.
        ask: the delivery.
        now: the store's clock.
    """
    answer = _decide(Case(facts=facts, ask=ask, now=now))
    if not ask.resources or answer.verdict is Verdict.RUN:
        return answer
    return evolve(answer, facts=leases.let_others(facts, answer.facts, now))


def _decide(case: Case) -> Admission:
    for line in _BEFORE_ADMITTANCE:
        answer = line(case)
        if answer is not None:
            return answer
    if case.facts.row is not None:
        case = evolve(case, facts=_take_row(case, case.facts.row))
    for line in _LINES:
        answer = line(case)
        if answer is not None:
            return answer
    return _run(case)


def _asked_before(case: Case) -> Admission | None:
    """Repeat the answer to an OPEN whose reply was lost on the way."""
    job = case.job
    if job is None or job.nonce != case.ask.nonce:
        return None
    if job.status is Outcome.OPEN:
        return _answer(case, Verdict.RUN, None, incomplete=job.unsettled)
    return _send_canvas_on(case, job) if job.status.ended and not job.canvas_advanced else None


def _already_parked(case: Case) -> Admission | None:
    row = case.facts.row
    if row is not None and row.status is RowStatus.PARKED and row.generation >= case.generation:
        return _ignore(case, Reason.ALREADY_PARKED)
    return None


def _superseded(case: Case) -> Admission | None:
    job = case.job
    if job is None or job.generation < case.generation:
        return None
    if job.generation > case.generation or job.status.handed_over:
        return _ignore(case, Reason.NEWER_DELIVERY)
    return None


def _ended_and_announced(case: Case) -> Admission | None:
    job = case.job
    if job is not None and job.status.ended and job.canvas_advanced:
        return _ignore(evolve(case, facts=evolve(case.facts, row=None)), Reason.CANVAS_ADVANCED)
    return None


def _canvas_in_progress(case: Case) -> Admission | None:
    job, now = case.job, case.now
    if job is None or not job.status.ended or job.canvas_until is None or job.canvas_until <= now:
        return None
    return _parked(case, job, Reason.CANVAS_IN_PROGRESS, job.canvas_until)


def _canvas_lapsed(case: Case) -> Admission | None:
    """Send the canvas on for an attempt that died between CLOSE and the end of its tracer's work."""
    job = case.job
    return _send_canvas_on(case, job) if job is not None and job.status.ended else None


def _send_canvas_on(case: Case, job: Job) -> Admission:
    ask = case.ask
    job = evolve(job, nonce=ask.nonce, canvas_until=case.now + ask.canvas_us)
    verdict = Verdict.RAISE_AGAIN if job.status.failing else Verdict.FIRST_RESULT
    return _answer(case, verdict, Reason.CANVAS_LAPSED, facts=evolve(case.facts, job=job), source=job)


def _expired(case: Case) -> Admission | None:
    deadline = case.ask.expires_at
    if deadline is None or deadline > case.now or alive(case.job, case.now):
        return None
    return _refuse(case, Outcome.EXPIRED, Reason.EXPIRED, letter=False)


def _poisoned(case: Case) -> Admission | None:
    owner = case.facts.owner
    if owner is None or alive(owner, case.now) or _strikes(case, owner) < case.ask.poison_cap:
        return None
    return _refuse(evolve(case, facts=_take_key(case)), Outcome.FAILED, Reason.POISON, owner=owner)


def _first_result(case: Case) -> Admission | None:
    """Answer another submission of a key that is done."""
    holder, ask, now = case.facts.holder, case.ask, case.now
    if holder is None or holder.status is not Outcome.SUCCEEDED:
        return None
    if _conflicts(holder, ask):
        return _refuse(case, Outcome.FAILED_VALIDATION, Reason.KEY_CONFLICT)
    job = _new_job(
        case,
        status=Outcome.DEDUPLICATED,
        origin=holder.submission,
        result=holder.result,
        result_lost=holder.result_lost,
        canvas_until=now + ask.canvas_us,
        closed_at=now,
    )
    facts = dead_letters.resolve(evolve(case.facts, job=job), "deduplicated")
    return _answer(case, Verdict.FIRST_RESULT, Reason.KEY_DONE, facts=facts, source=holder)


def _held(case: Case) -> Admission | None:
    """Wait for whoever has the key: a living attempt, or another submission's retry."""
    owner, holder = case.facts.owner, case.facts.holder
    if owner is not None and alive(owner, case.now):
        return _parked(case, owner, Reason.IN_FLIGHT, owner.lease_until or case.now)
    if holder is not None and reserved(holder, case.now):
        return _parked(case, holder, Reason.RETRY_PENDING, holder.reserved_until or case.now)
    return None


def _conflict(case: Case) -> Admission | None:
    holder = case.facts.holder
    # A payload that was mended before its replay is another one on purpose.
    if holder is not None and not case.decided and _conflicts(holder, case.ask):
        return _refuse(case, Outcome.FAILED_VALIDATION, Reason.KEY_CONFLICT)
    return None


def _failed_key(case: Case) -> Admission | None:
    holder = case.facts.holder
    if holder is not None and holder.status.failing and case.ask.refuse_failed and not case.decided:
        return _refuse(case, Outcome.FAILED, Reason.KEY_FAILED)
    return None


def _unsettled(case: Case) -> Admission | None:
    """Stop where nobody knows whether the effect happened, and the task wants a person to decide."""
    owner = case.facts.owner
    if owner is None or not owner.unsettled or case.ask.on_incomplete is not OnIncomplete.DEAD_LETTER:
        return None
    if case.ask.accepts_unknown:
        return None
    return _refuse(evolve(case, facts=_take_key(case)), Outcome.FAILED, Reason.EFFECT_UNSETTLED, owner=owner)


def _grants_paused(case: Case) -> Admission | None:
    """Wait where the store may have forgotten who has what this job would get."""
    ask, now = case.ask, case.now
    until = case.facts.caution.until(leases=bool(ask.resources), guards=ask.guards)
    if until <= now:
        return None
    since = _came(case) if ask.resources else None
    facts = leases.wait_for_grants(case.facts, ask.delivery, ask.identity, since, now, until)
    return _answer(case, Verdict.PARKED, Reason.GRANTS_PAUSED, facts=facts)


def _contended(case: Case) -> Admission | None:
    """Wait for a resource that another job has, or that others wait for in line.

    Asked last: who does not run needs no lease.
    """
    ask, now, since = case.ask, case.now, _came(case)
    found = leases.obstacle(case.facts.places, ask.delivery.submission, since, now)
    if found is None:
        return None
    if ask.backs_off:
        facts = leases.back_off(case.facts, ask.delivery, found, since, ask.nonce, now)
    else:
        facts = leases.line_up(case.facts, ask.delivery, found, since, now)
    return _answer(case, Verdict.PARKED, Reason.LEASE_HELD, facts=facts, behind=found.place)


def _came(case: Case) -> Micros:
    """Say when a delivery first came for its resources."""
    row = case.facts.row
    waited = row.contended_since if row is not None else None
    return case.now if waited is None else waited


_BEFORE_ADMITTANCE: tuple[Callable[[Case], Admission | None], ...] = (
    _asked_before,
    _already_parked,
    _superseded,
)
_LINES: tuple[Callable[[Case], Admission | None], ...] = (
    _ended_and_announced,
    _canvas_in_progress,
    _canvas_lapsed,
    _expired,
    _poisoned,
    _first_result,
    _held,
    _conflict,
    _failed_key,
    _unsettled,
    _grants_paused,
    _contended,
)


def _run(case: Case) -> Admission:
    owner, ask, now, floor = case.facts.owner, case.ask, case.now, case.facts.caution.floor
    facts = _take_key(case)
    incomplete = owner is not None and owner.unsettled
    job = _new_job(
        case,
        status=Outcome.OPEN,
        claim=ask.claim,
        message=ask.delivery.message() if ask.ack is AckMode.EARLY else None,
        fence=max(owner.fence + 1 if owner else 0, now, floor),
        lease_until=now + ask.lease_us,
        unsettled=incomplete or ask.is_step,
        attempts=(case.job.attempts if case.job else 0) + 1,
        strikes=_strikes(case, owner) if owner else 0,
        waiters=owner.waiters if owner else False,
        started_at=now,
    )
    row = facts.row
    if row is not None and row.status is RowStatus.TAKEN:
        # Early acknowledgement means that a body which died does not run again: not by our row either.
        early = ask.ack is AckMode.EARLY
        row = None if early else evolve(row, subject=job.identity, wake_at=now + ask.lease_us, contended_since=None)
    places = tuple(leases.grant(place, job, ask.keep_us, now, floor) for place in facts.places)
    facts = evolve(facts, job=job, row=row, places=places)
    return _answer(case, Verdict.RUN, None, facts=facts, incomplete=incomplete)


def _take_row(case: Case, row: Row) -> Facts:
    if row.generation > case.generation:
        return case.facts
    # From here on an older delivery would be superseded, so the row has to carry this one.
    message = row.message if row.generation == case.generation else case.ask.delivery.message()
    taken = evolve(row, status=RowStatus.TAKEN, generation=case.generation, wake_at=case.now, message=message)
    return evolve(case.facts, row=taken)


def _take_key(case: Case) -> Facts:
    """Take the key from another submission that failed or died."""
    holder = case.facts.holder
    if holder is None:
        return case.facts
    # One without a key has nothing to lose but its nonce, by which it would still be the owner.
    nonce = holder.nonce if holder.claim else ""
    return evolve(case.facts, holder=evolve(holder, claim=None, nonce=nonce, waiters=False, unsettled=False))


def _deaths(before: Facts, after: Facts, now: Micros) -> tuple[AttemptRecord, ...]:
    """Report attempts that turn out to have died, since another one takes what they held."""
    pairs = [(before.job, after.job), (before.holder, after.holder)]
    pairs += [(old.owner, new.owner) for old, new in zip(before.places, after.places, strict=True)]
    return tuple(
        died(old, now, "taken over")
        for old, new in pairs
        # One without a nonce was told of when it lost that.
        if old and new and old.nonce and old.status is Outcome.OPEN
        if (old.nonce, old.claim) != (new.nonce, new.claim)
    )


_BLANK = form(Job(submission="", operation="", task_id="", trace_id="", correlation_id=""))
_NOTHING = form(Facts())
_FIRST = form(Admission(facts=_NOTHING, verdict=Verdict.RUN))


def _said(ask: Ask, now: Micros) -> dict[str, Any]:
    """Return what a job's record has of its newest delivery."""
    delivery = ask.delivery
    return {
        "submission": delivery.submission,
        "operation": delivery.operation,
        "task_id": ask.task_id,
        "trace_id": ask.trace_id,
        "correlation_id": ask.correlation_id,
        "causation_id": ask.causation_id,
        "key": ask.key,
        "fingerprint": ask.fingerprint,
        "generation": delivery.generation,
        "nonce": ask.nonce,
        "original": ask.original,
        "ack": ask.ack,
        "redelivery_us": ask.redelivery_us,
        "worker": ask.worker,
        "pid": ask.pid,
        "published_at": ask.published_at,
        "started_at": now,
        "keep_until": now + ask.keep_us,
    }


def _new_job(case: Case, **changes: Any) -> Job:
    """Write the job's record anew for this delivery; what outlives a delivery is kept."""
    values, kept = _said(case.ask, case.now), case.job
    if kept is not None:
        values |= {name: getattr(kept, name) for name in ("fence", "attempts", "letter", "started_at")}
    return filled(_BLANK, {**values, **changes})


def _strikes(case: Case, owner: Job) -> int:
    """Count attempts in a row that died: one more where the last one never closed and nobody filed it yet.

    A replay begins at none, since somebody has looked at it.
    """
    return 0 if case.decided else owner.strikes + (owner.status is Outcome.OPEN)


def _conflicts(holder: Job, ask: Ask) -> bool:
    """Compare payload fingerprints; those of different making never conflict."""
    theirs, ours = holder.fingerprint, ask.fingerprint
    if not theirs or not ours:
        return False
    same_making = theirs.partition(":")[0] == ours.partition(":")[0]
    return same_making and theirs != ours


def _refuse(
    case: Case,
    outcome: Outcome,
    reason: Reason,
    *,
    letter: bool = True,
    owner: Job | None = None,
) -> Admission:
    """End the submission for good; the first time through the tracer, so that its canvas hears of it.

    Where `owner` is given, its key moves to this submission, and with it the mark that an effect is unsettled.
    """
    ask, now = case.ask, case.now
    kept = owner or case.job
    job = _new_job(
        case,
        status=outcome,
        claim=ask.claim if owner else kept.claim if kept else None,
        fence=kept.fence if kept else 0,
        unsettled=kept.unsettled if kept else False,
        waiters=kept.waiters if kept else False,
        canvas_until=now + ask.canvas_us,
        closed_at=now,
        failure=refusals.recorded(reason),
    )
    facts = evolve(case.facts, job=job)
    if letter:
        drafted = dead_letters.draft(
            job,
            now,
            reason,
            category=refusals.category(reason),
            text=refusals.error(reason, job.key, case.facts.holder).message,
            message=ask.delivery.message(),
            code_version=ask.code_version,
        )
        facts = dead_letters.file(facts, drafted)
    unfiled = b"" if letter else ask.delivery.message()
    return _answer(case, Verdict.REFUSED, reason, facts=facts, unfiled=unfiled)


def _parked(case: Case, behind: Job, reason: Reason, wake_at: Micros) -> Admission:
    facts = park(case.facts, case.ask.delivery, behind.identity, reason, case.now, wake_at)
    return _answer(case, Verdict.PARKED, reason, facts=facts)


def _ignore(case: Case, reason: Reason) -> Admission:
    return _answer(case, Verdict.IGNORE, reason)


def _answer(
    case: Case, verdict: Verdict, reason: Reason | None, *, facts: Facts | None = None, **more: Any
) -> Admission:
    """Answer; `more` are fields of `Admission` that this line alone has to tell."""
    before, after = case.facts, facts or case.facts
    return Admission(
        facts=after,
        ended=_deaths(before, after, case.now),
        verdict=verdict,
        reason=reason,
        requeues=before.row.requeues if before.row else 0,
        **more,
    )
