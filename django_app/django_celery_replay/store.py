"""The store in a database of the Django project."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

from django.db import Error, connections, router

from celery_replay import admission, chord_bodies, lifecycle
from celery_replay.admission import Admission, Ask
from celery_replay.clock import Micros
from celery_replay.exceptions import StoreError, StoreUnavailable
from celery_replay.facts import Facts, Place
from celery_replay.lifecycle import Ending
from celery_replay.records import Chunk, Job, Lease, StepRecord, evolve
from celery_replay.stores.base import Store
from celery_replay.stores.pool import Pool
from celery_replay.stores.reading import Reader
from celery_replay.stores.units import Contention, Unit

from . import relative, schema
from .connections import Link
from .dialects import dialect_of
from .models import ProcessedJob
from .readers import SqlReader
from .shortcuts import LIMIT, OWNER, Shortcuts
from .statements import Statements
from .tables import JOBS, LEASES, STEPS
from .text import restored
from .troubles import Trouble
from .units import SqlUnit
from .values import OPENED

T = TypeVar("T")


class DjangoStore(Store):
    """Keeps everything in one database of the project, over connections of its own.

    Args:
        alias: its name in DATABASES; by default where the routers write `ProcessedJob`.
        connections: how many connections one process may open.
        now: replaces the store's clock, in tests.
    """

    def __init__(self, alias: str = "", *, connections: int = 4, now: Callable[[], Micros] | None = None) -> None:
        self._alias = alias
        self._now = now
        self._pool: Pool[Link] = Pool(self._connect, connections, check=self._check)

    @cached_property
    def alias(self) -> str:
        """The database in use."""
        return self._alias or router.db_for_write(ProcessedJob)

    @property
    def place(self) -> str:
        """Say which database it is."""
        known = self.alias in connections.settings
        return f"database {self.alias!r} ({connections[self.alias].vendor if known else 'not in DATABASES'})"

    @cached_property
    def _dialect(self) -> Any:
        return dialect_of(self.alias, self._now)

    @cached_property
    def _statements(self) -> Statements:
        return Statements(self._dialect)

    @cached_property
    def _shortcuts(self) -> Shortcuts | None:
        return Shortcuts(self._statements, self._now) if self._dialect.one_statement else None

    def _connect(self) -> Link:
        link: Link = self._dialect.connect(self.alias)
        return link

    def _check(self, link: Link) -> None:
        with link.connection.wrap_database_errors:
            schema.check(link, self._dialect, self.alias)

    def close_connections(self) -> None:
        """Close the connections that nobody uses now."""
        self._pool.close()

    @contextmanager
    def _unit(self) -> Iterator[Unit]:
        link, now = self._run(lambda link: (link, self._dialect.begin(link)), keep=True)
        try:
            unit = SqlUnit(link, self._statements, now)
            yield unit
            unit.finish()
            link.cursor.execute("COMMIT")
        except Contention:
            self._roll_back(link)
            raise
        except link.database.Error as error:
            raise self._after(link, error, "during a transaction") from error
        except BaseException:
            # Perhaps a signal in the middle of a statement: nobody knows what state the connection is in.
            self._pool.drop(link)
            raise
        self._pool.give(link)

    def _after(self, link: Link, error: Exception, when: str) -> Exception:
        """Clean up after a database error; return what to raise."""
        match self._dialect.trouble(link.database, error):
            case Trouble.CONTENTION:
                self._roll_back(link)
                return Contention(str(error))
            case Trouble.LOST:
                self._pool.drop(link)
                # Everything is run again, over a new connection if one can be had.
                return Contention(str(error))
            case _:
                self._roll_back(link)
                return StoreError(f"database {self.alias!r} refused a statement {when}: {error}")

    def _roll_back(self, link: Link) -> None:
        try:
            link.cursor.execute("ROLLBACK")
        except Exception:
            self._pool.drop(link)
        else:
            self._pool.give(link)

    def _run(self, work: Callable[[Link], T], *, keep: bool = False) -> T:
        """Do one thing over a connection; where the connection turns out to be lost, once more over a new one.

        Args:
            keep: leave the connection with whoever did the work.
        """
        sent = False
        for fresh in (False, True):
            try:
                return self._try(work, keep, fresh)
            except _Lost as error:
                lost, sent = error, sent or error.sent
        unavailable = StoreUnavailable(f"database {self.alias!r} can't be reached: {lost}")
        unavailable.sent = sent
        raise unavailable from lost.__cause__

    def _try(self, work: Callable[[Link], T], keep: bool, fresh: bool) -> T:
        link = self._take(fresh)
        try:
            result = work(link)
        except link.database.Error as error:
            trouble = self._dialect.trouble(link.database, error)
            if keep or trouble is Trouble.LOST:
                self._pool.drop(link)
            else:
                self._pool.give(link)
            if trouble is Trouble.LOST:
                raise _Lost(str(error), sent=True) from error
            if trouble is Trouble.CONTENTION:
                raise Contention(str(error)) from error
            raise StoreError(f"database {self.alias!r} refused a statement: {error}") from error
        except BaseException:
            self._pool.drop(link)
            raise
        if not keep:
            self._pool.give(link)
        return result

    def _take(self, fresh: bool) -> Link:
        try:
            return self._pool.take(fresh)
        except Error as error:
            raise _Lost(str(error), sent=False) from error

    @contextmanager
    def _read(self) -> Iterator[Reader]:
        yield SqlReader(lambda sql, values: self._run(lambda link: link.look(sql, values)), self._statements)

    def _admit_new(self, ask: Ask) -> Admission | None:
        shortcuts = self._shortcuts
        # A deadline can only be judged by the clock, which is not known yet.
        if shortcuts is None or ask.expires_at is not None or len(ask.resources) > LIMIT:
            return None
        answer = _first_answer(ask)
        job = answer.facts.job
        if job is None or not OPENED.apply(job):
            return None
        names = [LEASES.encode("resource", name) for name in ask.resources]
        parameters = [*shortcuts.clock(), *names, *OPENED.parameters(job), JOBS.encode("submission", job.submission)]
        found = self._decide(shortcuts.opening(len(names)), parameters)
        if not found:
            return None
        now = found[0][0]
        fences = {restored(row[1]): row[2] for row in found} if names else {}
        places = relative.granted(answer.facts.places, now, fences)
        return evolve(answer, facts=Facts(job=relative.opened(job, now), places=places))

    def _close_own(self, job: Job, ending: Ending, chunks: Sequence[Chunk]) -> bool:
        # What a replay does to its original's letter is the rules' work on what is stored.
        if self._shortcuts is None or job.original or job.canvas_until or job.reserved_until:
            return False
        well = lifecycle.end_well(job, ending, relative.ZERO)
        after = Facts(job=well) if well is not None else _after(job, ending)
        if after is None or (after.letter is not None and chord_bodies.of(after.letter.message)):
            return False
        statement = self._shortcuts.close(job, after, ending, chunks)
        return statement is not None and bool(self._decide(*statement))

    def _claim_new(self, job: Job, step: StepRecord) -> bool:
        if self._shortcuts is None:
            return False
        row = STEPS.row(evolve(step, claimed_at=relative.ZERO))
        parameters = [*self._shortcuts.clock(), *OWNER(job), step.step_id, *row]
        return bool(self._decide(self._shortcuts.claiming, parameters))

    def _decide(self, sql: str, parameters: Sequence[Any]) -> list[Any]:
        """Run a shortcut; it finds nothing where it does not apply after all."""
        try:
            return self._run(lambda link: link.rows(sql, parameters))
        except Contention:
            return []


def _first_answer(ask: Ask) -> Admission:
    """Answer a delivery of which nothing is known, whose resources nobody has."""
    if not ask.resources:
        return admission.admitted(admission.first_job(ask, relative.ZERO))
    free = tuple(Place(lease=Lease(resource=name)) for name in ask.resources)
    return admission.admit(Facts(places=free), ask, relative.ZERO)


def _after(job: Job, ending: Ending) -> Facts | None:
    """Return what a job leaves that does not end well, or not yet; None where it is refused, or waits in a row."""
    closing = lifecycle.close(Facts(job=job), ending, relative.ZERO)
    return closing.facts if closing.accepted and closing.ended and closing.facts.row is None else None


class _Lost(Exception):
    """The connection went away, perhaps with a statement under way."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
