"""A worker process as an explicit program counter: every step is atomic, and it may die between any two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from celery_replay.admission import Admission, Ask
from celery_replay.facts import Delivery
from celery_replay.lifecycle import Ending
from celery_replay.records import Failure, Job, StepRecord
from celery_replay.states import AckMode, OnIncomplete, Outcome, StepState, Verdict
from tests.conformance import setup
from tests.conformance.outside import Message
from tests.conformance.setup import OUTCOMES

if TYPE_CHECKING:
    from tests.conformance.world import World

OPERATION = "shop.ship"
STEP = "effect"
TRACER = ("link", "store", "fstore", "count")
RUNNING = ("verify", "claim", "apply", "end", "retried")


@dataclass
class Worker:
    """One process slot; a crash empties it and gives it another pid."""

    world: World
    name: str
    pid: int = 1
    at: str = "idle"
    message: Message | None = None
    job: Job | None = None
    nonce: str = ""
    doubt: bool = False
    """An earlier attempt's effect is unsettled, and this one has not found out."""
    settled: list[StepRecord] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    """Canvas flags that wait for the next flush; they die with the process."""
    ending: str = "ok"
    """How the body will end; anything but "ok" ends before the effect where the body is one step."""
    incomplete: bool = False

    def __repr__(self) -> str:
        return f"{self.name}@{self.at} {self.message}"

    @property
    def submission(self) -> str:
        return self.message.submission if self.message else ""

    @property
    def generation(self) -> int:
        return self.message.generation if self.message else 0

    @property
    def identity(self) -> str:
        return self.world.setup.claim or self.original or self.submission

    @property
    def original(self) -> str | None:
        return self.world.originals.get(self.submission)

    @property
    def claim(self) -> str | None:
        careless = "replay_claims" in self.world.setup.bad_habits
        return self.world.setup.claim or (None if careless else self.original)

    @property
    def resources(self) -> tuple[str, ...]:
        return self.world.resources_of(self.submission)

    @property
    def fence(self) -> int:
        return self.job.fence if self.job else 0

    def receive(self, message: Message, ending: str = "ok") -> None:
        """Take a message from the queue; its last retry never retries again."""
        self.world.broker.hand_out(message)
        again = ending in ("retry", "replace")
        self.ending = "ok" if again and message.generation >= self.world.setup.retries else ending
        self.message, self.job, self.nonce, self.doubt = message, None, "", False
        self.settled = []
        self.at = "ack_first" if self.world.setup.ack is AckMode.EARLY else "open"

    def step(self) -> None:
        """Do the next atomic thing."""
        PROGRAM[self.at](self)

    def die(self) -> None:
        self.at, self.message, self.job, self.nonce = "idle", None, None, ""
        self.flags, self.settled = [], []
        self.pid += 1

    def delivery(self) -> Delivery:
        assert self.message is not None
        encode = self.message.encoded
        return Delivery(submission=self.submission, operation=OPERATION, generation=self.generation, message=encode)

    def ask(self) -> Ask:
        world = self.world
        return Ask(
            delivery=self.delivery(),
            nonce=self.nonce,
            task_id=self.submission,
            trace_id=self.submission,
            correlation_id=self.submission,
            key=world.setup.claim or "",
            claim=self.claim,
            original=self.original,
            accepts_unknown=world.setup.accepts and self.original is not None,
            lease_us=setup.LEASE,
            canvas_us=setup.CANVAS,
            keep_us=setup.KEEP,
            redelivery_us=setup.REDELIVERY,
            ack=world.setup.ack,
            is_step=world.setup.whole,
            on_incomplete=world.setup.incomplete,
            refuse_failed=world.setup.refuse_failed,
            poison_cap=world.setup.poison_cap,
            worker=self.name,
            pid=self.pid,
            resources=self.resources,
            backs_off=world.setup.backs_off,
        )

    def close(self, outcome: Outcome) -> bool:
        """CLOSE; tell whether it was accepted. A refusal has parked the delivery, and the wrapper ends in Ignore."""
        world = self.world
        failed = outcome is Outcome.FAILED
        ending = Ending(
            delivery=self.delivery(),
            nonce=self.nonce,
            claim=self.claim,
            outcome=outcome,
            canvas=world.setup.canvas,
            canvas_us=setup.CANVAS,
            keep_us=setup.KEEP,
            reserve_us=setup.RESERVE,
            result='"done"' if outcome is Outcome.SUCCEEDED else None,
            failure=Failure(type="ValueError", message="no") if failed else None,
            failure_json='{"type": "ValueError"}' if failed else None,
            unsettled=self.doubt,
            steps=tuple(self.settled),
            resources=self.resources,
        )
        accepted, rows = world.store.close(self.job, ending)
        world.to_publish.extend(rows)
        if accepted:
            world.accepted(self, "CLOSE")
        world.leased.closed(self)
        return accepted

    def lost(self) -> None:
        """End in Ignore, or (a bad habit) raise, which makes Celery announce a failure."""
        self.at = "fstore" if "lost_ignores" in self.world.setup.bad_habits else "ack"

    def settled_step(self) -> StepRecord:
        return replace(self.claimed_step(), state=StepState.SETTLED)

    def claimed_step(self) -> StepRecord:
        return StepRecord(scope=self.identity, key=STEP, name=STEP, state=StepState.CLAIMED, nonce=self.nonce)


def _ack_first(worker: Worker) -> None:
    assert worker.message is not None
    worker.world.broker.ack(worker.message.tag)
    worker.at = "open"


def _open(worker: Worker) -> None:
    world = worker.world
    worker.nonce = world.mint()
    answer = world.store.open(worker.ask())
    world.answered(worker, answer)
    if answer.verdict is Verdict.RUN:
        worker.job = answer.facts.job
        worker.doubt = worker.incomplete = answer.incomplete
        worker.at = _first_station(worker, answer)
    elif answer.verdict is Verdict.FIRST_RESULT:
        worker.at = "link"
    elif answer.verdict in (Verdict.RAISE_AGAIN, Verdict.REFUSED):
        worker.at = "fstore"
    else:
        worker.at = "ack"


def _first_station(worker: Worker, answer: Admission) -> str:
    if not worker.world.setup.whole:
        return "claim"
    return "verify" if answer.incomplete and _verifies(worker) else "apply"


def _verifies(worker: Worker) -> bool:
    return worker.world.setup.incomplete is OnIncomplete.VERIFY


def _verify(worker: Worker) -> None:
    """Register the fence, then look whether the effect exists."""
    world, target = worker.world, worker.world.target
    careless = "verify_fences" in world.setup.bad_habits
    if not careless and not target.register(worker.identity, worker.fence):
        worker.close(Outcome.REFUSED)
        worker.lost()
        return
    worker.doubt = False
    if target.effects.get(worker.identity):
        worker.settled = [] if world.setup.whole else [worker.settled_step()]
        worker.ending = "ok" if world.setup.whole else worker.ending
        worker.at = "end"
    else:
        worker.at = "apply"


def _claim(worker: Worker) -> None:
    assert worker.job is not None
    if worker.ending in ("interrupt", "requeue"):
        worker.at = "end"
        return
    ours, earlier = worker.world.store.claim_step(worker.job, worker.claimed_step(), worker.delivery())
    if not ours:
        worker.lost()
        return
    worker.world.accepted(worker, "claim")
    if earlier is None:
        worker.at = "apply"
    elif earlier.state is StepState.SETTLED:
        worker.doubt = False
        worker.at = "end"
    else:
        worker.world.claimed_over(worker, earlier)
        worker.at = "verify" if _verifies(worker) else "apply"


def _apply(worker: Worker) -> None:
    world = worker.world
    if world.setup.whole and worker.ending != "ok":
        worker.at = "end"
    elif world.target.apply(worker.identity, worker.fence):
        worker.doubt = False
        worker.settled = [] if world.setup.whole else [worker.settled_step()]
        worker.at = "end"
    else:
        worker.close(Outcome.REFUSED)
        worker.lost()


def _end(worker: Worker) -> None:
    if worker.ending in ("retry", "replace"):
        worker.world.broker.publish(worker.submission, worker.generation + 1)
        worker.at = "retried"
        return
    outcome = OUTCOMES[worker.ending]
    if not worker.close(outcome):
        worker.lost()
    elif outcome is Outcome.SUCCEEDED:
        worker.at = "link" if worker.world.setup.canvas else "store"
    elif outcome is Outcome.FAILED:
        worker.at = "fstore"
    elif outcome is Outcome.REQUEUED:
        # It waits in the parking lot, and the wrapper ends in Ignore.
        worker.at = "ack"
    else:
        worker.world.died.add(worker.submission)
        worker.at = "give_back"


def _retried(worker: Worker) -> None:
    worker.close(OUTCOMES[worker.ending])
    worker.at = "ack"


def _give_back(worker: Worker) -> None:
    """Leave the message to the broker, which brings it again where it was to be acknowledged late."""
    assert worker.message is not None
    if worker.message.tag in worker.world.broker.unacked:
        worker.world.broker.restore(worker.message.tag)
    worker.at = "idle"


def _link(worker: Worker) -> None:
    by_delivery = "lineage" in worker.world.setup.bad_habits
    child = f"{worker.submission}.{worker.generation}" if by_delivery else worker.submission
    worker.world.backend.publish_callback(worker.submission, child)
    worker.at = "store"


def _store(worker: Worker) -> None:
    worker.world.backend.results[worker.submission] = "FAILURE" if worker.at == "fstore" else "SUCCESS"
    worker.at = "count"


def _count(worker: Worker) -> None:
    if worker.world.setup.canvas:
        worker.world.backend.count_part(worker.submission)
    worker.flags.append(worker.submission)
    worker.at = "ack"


def _ack(worker: Worker) -> None:
    assert worker.message is not None
    worker.world.broker.ack(worker.message.tag)
    worker.at = "idle"


PROGRAM: dict[str, Callable[[Worker], None]] = {
    "ack_first": _ack_first,
    "open": _open,
    "verify": _verify,
    "claim": _claim,
    "apply": _apply,
    "end": _end,
    "retried": _retried,
    "give_back": _give_back,
    "link": _link,
    "store": _store,
    "fstore": _store,
    "count": _count,
    "ack": _ack,
}
