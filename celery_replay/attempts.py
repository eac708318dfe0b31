"""One execution of a job by one worker: open → run → renew → close."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any

from celery.backends.base import DisabledBackend

from . import arguments, headers, parking, signals
from .admission import Admission, Ask
from .allowances import Allowance
from .cache_reads import CacheReads
from .clock import SECOND, Micros, as_datetime, moment, new_id, wall
from .endings import by_its_own_hand, led_to, reason_of
from .exceptions import OwnershipLost, PostconditionFailed
from .failures import failure_json, failure_of, leaves_outcome_unknown
from .identities import identify
from .lifecycle import Ending
from .logs import logger_of
from .older_celery import ignores_result
from .policy import TaskPolicy
from .records import Chunk, Failure, Job, Row, StepRecord, evolve, filled
from .resources import Resources
from .retries.policy import ONLY_TOLD
from .retries.rules import IN_DOUBT, Judgement
from .runtime import Runtime
from .serialization import digest, result_json, safe_text
from .snapshots import capture
from .states import Capture, OnIncomplete, Outcome, Reason
from .step_log import StepLog
from .stores.base import Pulse
from .targets import target_of
from .templates import fence_name
from .trace import MESSAGE_LIMIT, Recorder

logger = logger_of(__name__)

TRIES = (0.1, 0.5, 1.0)
"""Seconds between them, where the store is away in the middle of an attempt."""
_CLOSE_PATIENCE_S = 5.0
"""No more tries after that: a store that does not answer makes each of them long."""


class Attempt:
    """What a running task sees of its own execution, as `self.attempt`."""

    celery_gave_up: bool = False
    """The body asked for a retry, and had as many as its task may have."""
    job: Job | None = None
    closed: Outcome | None = None
    ran_unprotected: bool = False
    """The body has ended, and the store never heard that it had begun."""
    replaced: bool = False
    retry_at: Micros | None = None
    """When the retry is due that the body has published."""
    requeues: int = 0
    """How often in a row the body has given the message back before."""
    unsure: bool = False
    """The store did not answer OPEN: nobody knows whether it did what it was asked."""
    committed: frozenset[str] = frozenset()
    """Of several databases that `atomic=` names, those in which an earlier attempt has committed its part."""
    published: int = 0
    """How many messages the tracer has published for this job's canvas."""
    _ending: Ending | None = None
    _stored: bool = True
    """Has the store taken CLOSE? Else the steward brings it from the spool, some time."""
    _announces: bool = True
    """Has the end of the canvas to be noted? Where there is none, CLOSE has done so."""
    _freed: Sequence[Row] = ()
    _ownership_lost: bool = False

    def __init__(self, runtime: Runtime, task: Any, request: Any, args: Any, kwargs: Any) -> None:
        self.runtime = runtime
        self.task = task
        # Weak, as the request refers to its attempt: freed at once, without the garbage collector.
        self.request = weakref.proxy(request)
        self.policy: TaskPolicy = runtime.policy(task)
        self._forms = runtime.forms(self.policy)
        self.args = args
        self.kwargs = kwargs
        self.nonce = new_id()
        self.is_eager = bool(request.is_eager)
        self.worker = request.hostname or runtime.hostname
        self.stamp = runtime.stamp(task.name, vars(request), self.worker)
        # Not a method: the recorder would refer to its attempt, and both stay until the garbage collector comes.
        self.secrets = arguments.Secrets(self.policy.named, args, kwargs, request.get("headers"))
        """What stands under secret names in the arguments and headers, wherever else it may be written."""
        self.resources = Resources(self.policy, args, kwargs)
        self.key_error: Exception | None = self.resources.error
        """Why the declared key or resources can't be computed; the attempt then fails without running the body."""
        self.key, self.fingerprint, self.claim, error = identify(
            task, self.policy, self.stamp, args, kwargs, self.secrets
        )
        self.key_error = self.key_error or error
        self._shown_key = safe_text(self.key, 500)
        self.generation = headers.generation_of(vars(request))
        self._renewed_at = time.monotonic()
        self.steps = StepLog()
        self._cache_reads: CacheReads | None = None
        self.allowance = Allowance(self.stamp.allows)
        self.recorder = Recorder(
            self.stamp.trace_id,
            self.nonce,
            {
                "job": request.id,
                "n": self.generation,
                "worker": f"{self.worker}/{runtime.pid}",
                "key": self._shown_key,
            },
            capture=self.policy.capture,
            secrets=self.secrets,
        )
        self.delivery = evolve(
            self._forms.delivery,
            submission=self.stamp.submission,
            generation=self.generation,
            message=parking.keeper(self.request, args, kwargs, task.serializer, self.policy.told),
        )

    # What a task may ask

    @property
    def submission(self) -> str:
        """Names the job, over retries, parking and redelivery."""
        return self.stamp.submission

    @property
    def identity(self) -> str:
        """What steps and markers belong to; the key's digest, or the submission where no key is declared."""
        return self.claim or self.submission

    @property
    def fence(self) -> int:
        """A token that rises with every attempt of this key; to be checked where effects are written."""
        return self.job.fence if self.job else 0

    def fence_of(self, resource: str) -> int:
        """Return the token of a resource, which rises with every holder; 0 where it runs without the store.

        Raises:
            ConfigurationError: the task has no lease on it.
        """
        return self.resources.fence_of(resource)

    @property
    def is_lost(self) -> bool:
        """Has another attempt taken over, or could the lease not be renewed in time?"""
        if self.job is None:
            # Without the store, the task's policy lets it run unprotected: there is nothing to lose.
            return False
        silent = time.monotonic() - self._renewed_at
        return self._ownership_lost or silent > self.policy.lease_us / SECOND

    def check(self) -> None:
        """Stop here if the job goes on elsewhere, or a resource is another one's by now.

        Raises:
            OwnershipLost: let it pass; the wrapper ends this attempt without harm to the job.
        """
        if self.is_lost:
            raise OwnershipLost

    def refuse_retry(self, error: object) -> None:
        """Stop a retry that only the job's owner may ask for.

        Raises:
            OwnershipLost: another attempt has taken over, or this error says so.
            EffectNotAllowed: the same replay would be refused the same side effect.
        """
        self.allowance.check()
        if isinstance(error, OwnershipLost) and error.is_owners:
            raise error
        if self._ownership_lost:
            raise OwnershipLost

    def fenced(self, resource: str | None = None, *, using: str | None = None) -> AbstractContextManager[None]:
        """Begin a database transaction that is refused once a newer attempt has registered there.

        Args:
            resource: refuse earlier holders of its lease, of whatever task; by default, this job's older attempts.
            using: the database alias; by default the task's `fenced=` option, else "default".

        Raises:
            ConfigurationError: the task has no lease on the resource.
        """
        alias = using or self.policy.fenced or "default"
        if resource is None:
            return target_of(self.task).fenced(alias, self.identity, self.fence)
        return target_of(self.task).fenced(alias, fence_name(resource), self.fence_of(resource))

    def guarded(self) -> AbstractContextManager[None]:
        """Where the task declares `fenced=`, tell that target first that older attempts are over; then look at it.

        Else one of them, paused since long ago, could still act after the look.
        """
        return self.fenced(using=self.policy.fenced) if self.policy.fenced else nullcontext()

    def record(self, name: str, /, **attributes: Any) -> None:
        """Add an event of the task's own to the trace."""
        self.recorder.record(name, domain=True, attributes=attributes)

    def cache_read(
        self, key: str, value: Any = None, *, hit: bool, version: Any = None, cache: str = "default"
    ) -> None:
        """Note in the trace what was found in a cache; see `celery_replay.cache_read`."""
        if self._cache_reads is None:
            self._cache_reads = CacheReads(self.recorder)
        self._cache_reads.note(cache, str(key), version, value, hit=hit)

    def snapshot(self, label: str) -> None:
        """Capture the task's declared `state=` now; where that fails, the trace tells, and the body goes on.

        Before and after the body that is done anyway. With `capture="none"` nothing is captured.

        Args:
            label: names the moment, as in "after payment".
        """
        if self.runtime.understudy is not None:
            self.runtime.understudy.comes_to(label)
        if self.policy.capture is not Capture.NONE:
            states = {name: partial(hook, *self.args, **self.kwargs) for name, hook in self.policy.state.items()}
            capture.take(safe_text(label, 100), states, getattr(self.task, "replay_state", ()), self.recorder)

    def now(self) -> datetime:
        """Return the time, aware and in UTC. A dry run gives, call by call, what this gave then."""
        understudy = self.runtime.understudy
        at = (understudy.now() if understudy is not None else None) or wall()
        self.recorder.record("time_read", at=at)
        return as_datetime(at)

    # The life cycle, for the wrapper

    def open(self) -> Admission:
        """Ask the store whether this delivery may run."""
        self._record_arrival()
        # Events stay buffered: a row less to write. What a sudden death takes with them, the job's record has.
        admission = self.runtime.store.open(self._ask())
        self.job = admission.facts.job
        self._renewed_at = time.monotonic()
        if self.job is not None and self.job.fence:
            self.recorder.about["fence"] = self.job.fence
        if self.resources.names:
            self.resources.opened(admission, self.recorder)
        if admission.requeues:
            # The body gave this message back; for the broker, the one that comes now is a new one.
            self.requeues = admission.requeues
            self.request.delivery_info["redelivered"] = True
        return admission

    def _ask(self) -> Ask:
        stamp, request = self.stamp, self.request
        return filled(
            self._forms.ask,
            {
                "delivery": self.delivery,
                "nonce": self.nonce,
                "task_id": safe_text(request.id, 250),
                "trace_id": stamp.trace_id,
                "correlation_id": stamp.correlation_id,
                "causation_id": stamp.causation_id,
                "key": self._shown_key,
                "claim": self.claim,
                "fingerprint": self.fingerprint,
                "published_at": stamp.published_at,
                "expires_at": moment(request.expires),
                "original": stamp.original,
                "accepts_unknown": bool(stamp.accepts_unknown),
                "worker": self.worker,
                "resources": self.resources.names,
            },
        )

    def close(
        self,
        outcome: Outcome,
        *,
        result: Any = None,
        error: BaseException | None = None,
        reserve_us: Micros = 0,
    ) -> bool:
        """End the attempt; return whether it was still the owner.

        Where the store stays away, the ending is written to disk, Celery goes on, and the steward delivers it.
        """
        if self.closed is not None:
            return self.closed is not Outcome.REFUSED
        # From here on what is buffered is CLOSE's to write.
        self.runtime.heartbeat.remove(self)
        self._ending = self._ending or self._end(outcome, result, error, reserve_us)
        accepted = self._deliver(self._ending)
        self.closed = outcome if accepted else Outcome.REFUSED
        signals.send(signals.attempt_closed, sender=self.task, outcome=self.closed, attempt=self)
        return accepted

    def _end(self, outcome: Outcome, result: Any, error: BaseException | None, reserve_us: Micros) -> Ending:
        """Write down how the attempt ended."""
        encoded = result_json(result) if outcome is Outcome.SUCCEEDED else None
        failure, judged = None, None
        if error is not None and outcome.failing:
            judged = self.judge(error)
            failure = self.failure(error, reason_of(outcome, error), judged)
        self._record_end(outcome, failure, judged, error, result)
        if not self._ownership_lost:
            self.resources.released(self.recorder)
        quiet = outcome is Outcome.IGNORED or outcome.handed_over or self.unsure
        self._announces = self._has_canvas() and not quiet
        doubts, job = self.steps.doubts, self.job
        return filled(
            self._forms.ending,
            {
                "delivery": self.delivery,
                "nonce": self.nonce,
                "claim": self.claim,
                "outcome": outcome,
                "canvas": self._announces,
                "reserve_us": reserve_us,
                "result": encoded,
                "result_lost": outcome is Outcome.SUCCEEDED and encoded is None,
                "failure": failure,
                "failure_json": failure_json(failure) if failure else None,
                "unsettled": bool(doubts) or (outcome is Outcome.INTERRUPTED and self._owes()),
                "unsure": self.unsure,
                "requeues": self.requeues,
                "strike": outcome is Outcome.INTERRUPTED and by_its_own_hand(error),
                "steps": self.steps.unwritten,
                "worker": self.worker,
                "fence": job.fence if job else 0,
                "started_at": job.started_at if job else 0,
                "resources": self.resources.names,
            },
        )

    def failure(self, error: BaseException, reason: Reason, judged: Judgement) -> Failure:
        """Describe an exception, as far as the task's policy lets it be told."""
        says = self.policy.capture is not Capture.NONE
        return failure_of(error, reason, known=self.secrets(), says=says, category=judged.category)

    def judge(self, error: BaseException) -> Judgement:
        """Say what kind of failure an error is: first of all whether it leaves a side effect in doubt."""
        doubt = self.steps.doubts or (self.policy.is_step and leaves_outcome_unknown(error))
        # Of a body that has returned it is known that it did something, and that it is wrong.
        if (
            doubt
            and not isinstance(error, PostconditionFailed)
            and self.policy.on_incomplete is OnIncomplete.DEAD_LETTER
        ):
            return IN_DOUBT
        return (self.policy.failures or ONLY_TOLD).judge(error, self.made)

    @property
    def made(self) -> int:
        """How many attempts Celery has made of the job, this one included."""
        return int(self.request.retries or 0) + 1

    def _deliver(self, ending: Ending) -> bool:
        chunks = self.recorder.take()
        if ending.unsure:
            # The store is away, and nobody waits for this.
            self._spool(ending, chunks)
            return True
        patient_until = time.monotonic() + _CLOSE_PATIENCE_S
        for pause in (*TRIES, None):
            try:
                accepted, freed = self.runtime.store.close(self.job, ending, chunks)
            except Exception:
                logger.warning("replay.close_failed", exc_info=True, extra={"submission": self.submission})
                if pause is None or time.monotonic() > patient_until:
                    self._spool(ending, chunks)
                    return ending.outcome is not Outcome.REFUSED
                time.sleep(pause)
            else:
                if not accepted:
                    self.recorder.record("stale_write_rejected", status="fail")
                    if not self._ownership_lost:
                        self.resources.lost(self.recorder)
                    self.runtime.heartbeat.write(self.recorder.take())
                self._freed = freed
                if ending.outcome is not Outcome.RETRY_SCHEDULED:
                    self.dispatch_freed()
                return accepted
        return False

    def dispatch_freed(self) -> None:
        """Publish what CLOSE freed; after a retry only once Celery has stored that state, else it would be the last."""
        if not self._freed:
            return
        freed, self._freed = self._freed, ()
        parking.dispatch(self.runtime.app, self.runtime.store, freed, self.runtime.resend_us)

    def _spool(self, ending: Ending, chunks: list[Chunk]) -> None:
        self._stored = False
        try:
            self.runtime.spool.put(ending, chunks)
        except Exception:
            # The reaper will find an attempt that never closed; the task's own outcome must not suffer.
            logger.exception("replay.spool_failed", extra={"submission": self.submission})

    def _owes(self) -> bool:
        """Was the attempt cut off in the middle of an effect?"""
        return self.policy.is_step or (self.job is not None and self.job.unsettled)

    def _has_canvas(self) -> bool:
        request = self.request
        if request.callbacks or request.errbacks or request.chain or request.chord:
            return True
        return not ignores_result(self.task, request) and not isinstance(self.task.backend, DisabledBackend)

    def canvas_advanced(self) -> None:
        """Note that the tracer has sent this job's callbacks, chain and chord part on."""
        chunks = self.recorder.take()
        if chunks:
            self.runtime.heartbeat.write(chunks)
        if self._announces:
            self.runtime.heartbeat.advanced(self.submission)
            self._announces = False
        self.dispatch_freed()

    @property
    def owes_announcement(self) -> bool:
        """Has the job ended, as the store knows, and the tracer not told its canvas and its result backend so?"""
        return self.closed is not None and self.closed.ended and self._announces and self._stored

    @property
    def by_tracer(self) -> bool:
        """Is what is published now the tracer's, since the body is over?"""
        return self.ran_unprotected or self.closed is not None

    def derived_submission(self, task_name: str) -> str:
        """Name a message that the tracer publishes, so that a second tracer of this job gives it the same name."""
        self.published += 1
        return digest(self.submission, "canvas", task_name, str(self.published))

    # For the heartbeat

    @property
    def pulse(self) -> Pulse:
        """What renews its leases; most attempts are too short to need that."""
        return Pulse(
            submission=self.submission,
            nonce=self.nonce,
            claim=self.claim,
            lease_us=self.policy.lease_us,
            message=parking.if_it_can_be(self.delivery.message),
            resources=self.resources.names,
        )

    @property
    def lease_us(self) -> Micros:
        """How long a lease lasts without being renewed."""
        return self.policy.lease_us

    def take(self) -> tuple[list[Chunk], list[StepRecord]]:
        """Hand over buffered events and ends of steps."""
        return self.recorder.take(), self.steps.take()

    def put_back(self, chunks: list[Chunk], steps: list[StepRecord]) -> None:
        """Take back what could not be written."""
        for chunk in chunks:
            self.recorder.put_back(chunk)
        self.steps.put_back(steps)

    @property
    def calm(self) -> Job | None:
        """The job, where its side effects are in steps: once all of them are settled, nothing of it is in doubt."""
        return None if self.policy.is_step or self.steps.doubts else self.job

    def renewed(self) -> None:
        """Note that the lease was prolonged."""
        self._renewed_at = time.monotonic()

    def lost(self) -> None:
        """Note that another attempt took over."""
        self._ownership_lost = True
        self.recorder.record("lease_lost", status="fail")
        self.resources.lost(self.recorder)

    # Details

    def _record_arrival(self) -> None:
        request, note = self.request, self.recorder.note
        if self.stamp.published_at:
            note("published", at=self.stamp.published_at)
        received = vars(request).get("replay_received_at")
        if received:
            note("received", at=received)
        if (request.delivery_info or {}).get("redelivered"):
            note("redelivered")

    def started(self) -> None:
        """Record that the body begins, by which code and under which options."""
        began, capture = self._forms.began, self.policy.capture
        if capture is Capture.FULL:
            given = self.recorder.given(lambda: self.policy.named(self.args, self.kwargs))
            self.recorder.record("started", attributes={**began, **given})
            return
        if capture is Capture.KEYS and (self.args or self.kwargs):
            began = {**began, "argument_types": arguments.types(self.policy.named(self.args, self.kwargs))}
        self.recorder.note("started", began)

    def _record_end(
        self,
        outcome: Outcome,
        failure: Failure | None,
        judged: Judgement | None,
        error: BaseException | None,
        result: Any,
    ) -> None:
        good = outcome in (Outcome.SUCCEEDED, Outcome.DEDUPLICATED)
        attributes: dict[str, Any] = self.recorder.returned(result) if good else {}
        if good and error is None and not attributes:
            self.recorder.note(str(outcome))
            return
        if failure is not None:
            said = {"message": failure.message[:MESSAGE_LIMIT]} if failure.message else {}
            attributes = {"error": failure.type, **said, "category": str(failure.category)}
            if judged is not None and judged.rule:
                attributes |= {"rule": judged.rule, "because": judged.because}
        elif error is not None:
            attributes = self.recorder.said(error)
        if error is not None:
            attributes = {**attributes, **led_to(error, self.task, self.request, self.retry_at)}
        self.recorder.record(str(outcome), status="success" if good else "fail", attributes=attributes)
        if outcome.failing:
            self.recorder.record("dead_lettered")
