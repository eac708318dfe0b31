"""Two stores as one: a ledger that decides what is in flight, and a journal that keeps what happened.

What happens flows one way, from the ledger to the journal, and never decides anything there. Only what the ledger lost,
or let go of, is put back when somebody decides about it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ..admission import Admission, Ask
from ..clock import SECOND, Micros
from ..dead_letters import Decision
from ..exceptions import ReplayError, StoreUnavailable
from ..lifecycle import Ending
from ..logs import logger_of
from ..records import Chunk, Job, Row, StepRecord
from . import archive
from .archive import Backlog, Taken
from .base import Store
from .both import BothReader
from .ledger import Ledger
from .operating import Operating
from .reading import Reader
from .thinning import Summarise
from .triage import Strip, erase_now, erase_records
from .units import Unit

logger = logger_of(__name__)

T = TypeVar("T")
BATCH = 500
SETTLE_US: Micros = 2 * SECOND
"""What changes again within this time is told once: a job's end, and that its callbacks were sent on a second later."""
LATER_US: Micros = 600 * SECOND
"""After how long something is tried again that the journal refused."""
BEHIND_US: Micros = 60 * SECOND
"""From when on people should know that the journal is behind."""


class JournaledStore(Store):
    """Decides in the ledger; reads from both, the ledger's word first where both have one.

    Args:
        ledger: where everything in flight is decided.
        journal: where it is kept. While it can't be reached, jobs go on, and what it has to be told waits.
    """

    def __init__(self, ledger: Ledger, journal: Store) -> None:
        self.ledger = ledger
        self.journal = journal

    @property
    def alias(self) -> str | None:
        """The Django database of the journal, if it is one."""
        return getattr(self.journal, "alias", None)

    @property
    def place(self) -> str:
        """Say where the records are."""
        return f"{self.ledger.place}; journal: {self.journal.place}"

    def close_connections(self) -> None:
        """Let go of both stores' connections."""
        self.ledger.close_connections()
        self.journal.close_connections()

    def check(self) -> None:
        """Try both; a journal that can't be reached now keeps nobody from working."""
        self.ledger.check()
        try:
            self.journal.check()
        except StoreUnavailable:
            logger.warning("replay.journal_down", exc_info=True)

    # In flight: the ledger's.

    @contextmanager
    def _unit(self) -> Iterator[Unit]:
        with self.ledger._unit() as unit:
            yield unit

    def _atomically(self, step: Callable[[Unit], T], *given: Any) -> T:
        return self.ledger._atomically(step, *given)

    def _admit_new(self, ask: Ask) -> Admission | None:
        return self.ledger._admit_new(ask)

    def _close_own(self, job: Job, ending: Ending, chunks: Sequence[Chunk]) -> bool:
        return self.ledger._close_own(job, ending, chunks)

    def _claim_new(self, job: Job, step: StepRecord) -> bool:
        return self.ledger._claim_new(job, step)

    def now(self) -> Micros:
        """Read the ledger's clock."""
        return self.ledger.now()

    def mark(self, name: str, at_least: Micros = 0) -> Micros:
        """Keep a number where it stays: in the journal."""
        return self.journal.mark(name, at_least)

    def keep_mark(self) -> None:
        """Let the ledger keep its mark, where it has one."""
        self.ledger.keep_mark()

    # What flows.

    def archive(self, limit: int = BATCH) -> int:
        """Tell the journal what has settled; return how much, 0 where nothing is due."""
        waiting = self.ledger.noted().count
        if waiting < limit:
            waiting += self.ledger.note_older(limit)
        return self._archive(SETTLE_US, limit) if waiting else 0

    def _archive(self, settle_us: Micros, limit: int, names: Sequence[str] = ()) -> int:
        taken: Taken = {}

        def step(unit: Unit) -> None:
            nonlocal taken
            # Before anything is read: who reads later, writes later.
            archive.lock(unit)
            taken = self.ledger.take(settle_us, limit, names)
            archive.tell(unit, self.ledger.changed(list(taken)))

        try:
            self.journal._atomically(step)
        except StoreUnavailable:
            raise
        except Exception as error:
            self._part(taken, error)
        else:
            self.ledger.told(taken)
        return len(taken)

    def _part(self, taken: Taken, error: Exception) -> None:
        """Tell by halves what could not be told together; put off what can't be told by itself.

        A value may be of a newer version, or too large for the database: the others must not wait for it.
        """
        names = list(taken)
        if len(names) <= 1:
            logger.warning("replay.journal_refused", exc_info=error, extra={"changes": names})
            self.ledger.put_off(taken, LATER_US)
            return
        for half in (names[: len(names) // 2], names[len(names) // 2 :]):
            self._archive(0, BATCH, half)

    def count_up(self, limit: int = 5_000) -> int:
        """Tell the journal the next of what waits, settled or not, so that lists have it."""
        told = self._archive(0, BATCH) if self.ledger.noted().count else 0
        return told + self.journal.count_up(limit)

    def backlog(self) -> Backlog:
        """Say what waits to be told to the journal."""
        return self.ledger.noted()

    def troubles(self) -> Sequence[str]:
        """Say whether the journal can be reached, and whether it is behind."""
        said = []
        try:
            self.journal.check()
        except ReplayError as error:
            said.append(f"the journal can't be written: {error}; jobs go on, and what happens is kept in the ledger")
        backlog = self.backlog()
        if backlog.age_us > BEHIND_US:
            said.append(
                f"the journal is behind by {backlog.count} changes, the oldest {backlog.age_us // SECOND} s old: does "
                "a steward lead, and does it reach the database?"
            )
        return said

    def prune(self, limit: int = 500) -> int:
        """Delete one batch of old records in each; return how many jobs went where most did."""
        try:
            # What waits is perhaps about what is old.
            self._refresh()
        except StoreUnavailable:
            logger.warning("replay.journal_behind", exc_info=True)
        gone = self.ledger.prune(limit)
        # All that is old in the ledger goes, whether the journal can be reached or not.
        return gone if gone >= limit else max(gone, self.journal.prune(limit))

    # Large values elsewhere: from the journal, which gets all of them.

    def place_blobs(self, limit: int = BATCH) -> int:
        """Put the journal's next large values elsewhere."""
        self.journal.elsewhere = self.elsewhere
        return self.journal.place_blobs(limit)

    def sweep_blobs(self, limit: int = BATCH, *, at: Micros | None = None) -> int:
        """Delete objects elsewhere to which the journal does not refer."""
        self.journal.elsewhere = self.elsewhere
        return self.journal.sweep_blobs(limit, at=at)

    def unreferred_blobs(self, limit: int = 10_000) -> Sequence[str]:
        """Name objects elsewhere to which the journal does not refer."""
        return self.journal.unreferred_blobs(limit)

    def _delete_elsewhere(self, names: Collection[str]) -> None:
        self.journal.elsewhere = self.elsewhere
        self.journal._delete_elsewhere(names)

    # What people decide.

    def _act(self, submission: str, step: Callable[[Unit], T]) -> T:
        if submission:
            self._restore(submission)
        answer, changes = self._noting(step)
        try:
            self._archive(0, BATCH, changes)
        except ReplayError:
            # It was decided, and waits in the outbox.
            logger.warning("replay.journal_behind", exc_info=True)
        return answer

    def _noting(self, step: Callable[[Unit], T]) -> tuple[T, list[str]]:
        """Take a step of the ledger; return also what the journal has to be told."""
        units: list[Unit] = []

        def noting(unit: Unit) -> T:
            units.append(unit)
            return step(unit)

        answer = self.ledger._atomically(noting)
        return answer, sorted(units[-1].changes)

    def _restore(self, submission: str) -> None:
        """Put a letter back into the ledger, with its job, if the journal alone has it."""
        if self.ledger.letter(submission) is not None:
            return
        letter = self.journal.letter(submission)
        if letter is None:
            return
        job = self.journal.job(submission)
        lost = archive.Lost(
            letter=letter,
            job=job,
            attempts=self.journal.attempts(submission),
            steps=self.journal.steps(job.identity) if job is not None else (),
        )
        self.ledger._atomically(lambda unit: archive.restore(unit, lost))
        logger.warning("replay.letter_restored", extra={"submission": submission})

    def free(self, submission: str, actor: str, text: str) -> Row:
        """Release a parked job before its time; one that the ledger lost is put back, to be sent on.

        Raises:
            TriageRefused: it is not parked.
        """
        row = self.journal.row(submission) if self.ledger.row(submission) is None else None
        if row is not None and self.ledger.job(submission) is None:
            self.ledger._atomically(lambda unit: unit.put(row) if unit.row(submission) is None else None)
            logger.warning("replay.parked_job_restored", extra={"submission": submission})
        return super().free(submission, actor, text)

    def keep(self, submission: str, decision: Decision, until: Micros | None = None) -> Job:
        """Keep a job that ended, with its trace; one that the ledger has forgotten in the journal.

        Raises:
            TriageRefused: as in one store.
        """
        if self.ledger.job(submission) is None:
            return self.journal.keep(submission, decision, until)
        return super().keep(submission, decision, until)

    def thin(self, detail_us: Micros, summarise: Summarise, after: str = "", limit: int = BATCH) -> tuple[int, str]:
        """Let details go in both."""
        here, _, there = after.partition("|")
        count, done = 0, not after
        if here or done:
            count, here = self.ledger.thin(detail_us, summarise, here, limit)
        if there or done:
            more, there = self.journal.thin(detail_us, summarise, there, limit)
            count += more
        return count, f"{here}|{there}" if here or there else ""

    def _erase(self, submission: str, decision: Decision, strip: Strip) -> Job:
        """Erase a person's data in both; nobody tells the journal anything meanwhile that was read before.

        Raises:
            TriageRefused: as in one store.
            StoreUnavailable: the journal can't be reached. It is asked first, so nothing was erased; but where it went
                away meanwhile something may be left in it, and erasing again takes that, too.
        """
        self._restore(submission)
        done: list[Job] = []
        changes: list[str] = []

        def step(unit: Unit) -> tuple[Job, Taken]:
            archive.lock(unit)
            if not done and self.ledger.job(submission) is None:
                return erase_now(unit, submission, decision, strip), {}
            if not done:
                # Once, though the journal's part may have to be done again.
                erased, names = self._noting(lambda own: erase_now(own, submission, decision, strip))
                done.append(erased)
                changes.extend(names)
            known = unit.job(submission)
            if known is not None:
                erase_records(unit, known, strip)
            taken = self.ledger.take(0, BATCH, changes)
            archive.tell(unit, self.ledger.changed(list(taken)))
            return done[0], taken

        job, taken = self.journal._atomically(step)
        self.ledger.told(taken)
        return job

    @property
    def _operating(self) -> Operating:
        return self.journal

    @contextmanager
    def _read(self) -> Iterator[Reader]:
        with self.ledger._read() as ledger, self.journal._read() as journal:
            yield BothReader(ledger, journal, self._refresh)

    def _refresh(self) -> None:
        if self.ledger.noted().count:
            self._archive(0, BATCH)
