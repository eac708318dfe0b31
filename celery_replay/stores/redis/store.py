"""The store in Redis or Valkey."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from ...admission import Admission, Ask
from ...clock import SECOND, Micros
from ...exceptions import ConfigurationError, ReplayError, StoreError, StoreUnavailable
from ...lifecycle import Ending
from ...records import Chunk, Job, StepRecord
from ..archive import Backlog, Now, Taken
from ..ledger import Ledger
from ..pool import Pool
from ..reading import Reader
from ..units import Contention, Unit
from . import address, health, outbox, runs, scripts, shortcuts
from .faults import Denied, Lost, Refused
from .links import Argument, Link
from .readers import RedisReader
from .runs import Marks
from .scripts import Script
from .units import RedisUnit

T = TypeVar("T")
PREFIX = "celery-replay"


class RedisStore(Ledger):
    """Keeps everything in one database of a Redis or Valkey server, over connections of its own.

    Args:
        url: as Celery has it for its broker.
        prefix: what its keys begin with, in braces; projects that share a database need one each.
        retention: seconds for which events are kept at least.
        evicting: allow a server that drops records when its memory is full.
        notes: note what changes, for a journal.
        connections: how many connections one process may open.
        lease_ttl_max: seconds that no lease is longer than; for so long nobody gets a resource after a loss.
        marks: who remembers which tokens were given when this store forgets; a store in a database, say.
        now: replaces the store's clock, in tests.
        options: redis-py's options of a connection, such as `password` and `ssl_ca_certs`; `master_name` for Sentinel.
    """

    _tries: ClassVar[int] = 40
    """Nobody waits for a lock here: of many who want the same, one gets it in each round."""

    def __init__(  # noqa: PLR0913 - each is an option that a project may set
        self,
        url: str,
        *,
        prefix: str = PREFIX,
        retention: float = 7 * 86_400,
        evicting: bool = False,
        notes: bool = False,
        connections: int = 4,
        lease_ttl_max: float = 600,
        marks: Marks | None = None,
        now: Callable[[], Micros] | None = None,
        **options: Any,
    ) -> None:
        self._url = url
        self._prefix = "{" + prefix.strip("{}:") + "}:"
        self._keep_us = round(retention * SECOND)
        self._evicting = evicting
        self._notes = notes
        self._pause_us = round(lease_ttl_max * SECOND)
        self._memory = runs.Memory()
        self._now = now
        self._make = address.connector(url, options)
        self._reserve = runs.Reserve(marks, self.place)
        self._pool: Pool[Link] = Pool(self._connect, connections, check=self._check)

    @property
    def place(self) -> str:
        """Say which server it is, and which keys."""
        return f"{address.shown(self._url)}, keys {self._prefix}*"

    def _connect(self) -> Link:
        link = Link(self._make(), self._prefix, notes=self._notes)
        link.connect()
        return link

    def _check(self, link: Link) -> None:
        health.check(link, self.place, evicting=self._evicting)

    def _take(self, fresh: bool = False) -> Link:
        """Lend a connection that knows which run of the store this is."""
        try:
            link = self._pool.take(fresh)
            if link.run is None:
                self._introduce(link)
        except Refused as error:
            raise self._refused(error) from error
        return link

    def _introduce(self, link: Link) -> None:
        try:
            link.run = runs.meet(link, self._clock, self._memory, self._reserve, self._pause_us)
        except BaseException:
            self._pool.drop(link)
            raise

    @property
    def _clock(self) -> Argument:
        return self._now() if self._now else ""

    def keep_mark(self) -> None:
        """Reserve the next tokens where somebody keeps a mark for this store."""
        if self._reserve:
            self._reserve.keep_above(self._memory.highest or self.now())

    def close_connections(self) -> None:
        """Close the connections that nobody uses now."""
        self._pool.close()

    @contextmanager
    def _unit(self) -> Iterator[Unit]:
        with self._unit_of(()) as unit:
            yield unit

    @contextmanager
    def _unit_of(self, found: Sequence[bytes]) -> Iterator[Unit]:
        """Begin an atomic step, perhaps with what a script has found."""
        link = self._take()
        clean = False
        try:
            unit = RedisUnit(link, self._now() if self._now else None, self._keep_us, found)
            yield unit
            unit.finish()
            if unit.seen is not None:
                self._memory.saw(unit.seen)
            clean = True
        except (Contention, ReplayError):
            # The rules said no: no command is under way.
            clean = True
            raise
        except Refused as error:
            clean = True
            raise self._refused(error) from error
        finally:
            # After anything else, perhaps a signal in the middle of a command, an answer may still be on its way.
            self._pool.give(link) if clean else self._pool.drop(link)

    def _run(self, work: Callable[[Link], T]) -> T:
        """Do one thing over a connection; where that turns out to be lost, once more over a new one."""
        sent = False
        for fresh in (False, True):
            try:
                return self._try(work, fresh)
            except Lost as error:
                lost, sent = error, sent or error.sent
        raise self._unavailable(lost, sent) from lost

    def _atomically(self, step: Callable[[Unit], T], sent: bool = False) -> T:
        for _ in range(2):
            try:
                return super()._atomically(step)
            except Lost as error:
                lost, sent = error, sent or error.sent
                # The others were made when this one was.
                self._pool.close()
        raise self._unavailable(lost, sent) from lost

    def _try(self, work: Callable[[Link], T], fresh: bool) -> T:
        link = self._take(fresh)
        try:
            result = work(link)
        except Refused as error:
            self._pool.give(link)
            raise self._refused(error) from error
        except BaseException:
            self._pool.drop(link)
            raise
        self._pool.give(link)
        return result

    def _refused(self, error: Refused) -> ReplayError:
        if isinstance(error, Denied):
            return ConfigurationError(f"{self.place}: {error}")
        return StoreError(f"{self.place} refused a command: {error}")

    def _unavailable(self, error: Lost, sent: bool) -> StoreUnavailable:
        trouble = "can't serve now" if error.answered else "can't be reached"
        unavailable = StoreUnavailable(f"{self.place} {trouble}: {error}")
        unavailable.sent = sent
        return unavailable

    @contextmanager
    def _read(self) -> Iterator[Reader]:
        yield RedisReader(self._run)

    def _admit_new(self, ask: Ask) -> Admission | None:
        opening = shortcuts.opening(ask)
        if opening is None:
            return None
        job, arguments = opening
        clock = self._clock

        def ask_script(link: Link) -> list[bytes]:
            assert link.run is not None
            caution = link.run.caution
            decided = max(caution.floor, caution.until(leases=False, guards=ask.guards))
            found: list[bytes] = link.call(scripts.OPEN, clock, link.run.name, decided, *arguments)
            return found

        found = self._run(ask_script)
        if len(found) == 1:
            now = int(found[0])
            self._memory.saw(now)
            return shortcuts.opened(job, now)
        return self._go_on(found, lambda unit: self._open(unit, ask))

    def _close_own(self, job: Job, ending: Ending, chunks: Sequence[Chunk]) -> bool:
        arguments = shortcuts.closing(job, ending, chunks)
        return arguments is not None and len(self._call(scripts.CLOSE, arguments)) == 1

    def _claim_new(self, job: Job, step: StepRecord) -> bool:
        return len(self._call(scripts.CLAIM, shortcuts.claiming(job, step))) == 1

    def take(self, settle_us: Micros, limit: int, names: Sequence[str] = ()) -> Taken:
        """Take names out of the outbox."""
        return self._run(lambda link: outbox.take(link, settle_us, limit, names))

    def told(self, taken: Taken) -> None:
        """Forget what was taken."""
        self._run(lambda link: outbox.told(link, taken))

    def put_off(self, taken: Taken, delay_us: Micros) -> None:
        """Note what was taken again, for later."""
        self._run(lambda link: outbox.put_off(link, taken, delay_us))

    def changed(self, names: Sequence[str]) -> Now:
        """Read what has these names now."""
        return self._run(lambda link: outbox.now(link, names))

    def note_older(self, limit: int) -> int:
        """Note the next of what was there before anything was noted."""
        return self._run(lambda link: outbox.note_older(link, limit))

    def noted(self) -> Backlog:
        """Count what waits in the outbox."""
        return self._run(outbox.backlog)

    def _call(self, script: Script, arguments: Sequence[Argument]) -> list[bytes]:
        clock = self._clock
        found: list[bytes] = self._run(lambda link: link.call(script, clock, *arguments))
        return found

    def _go_on(self, found: Sequence[bytes], step: Callable[[Unit], T]) -> T | None:
        """Decide by what a shortcut has found, so that nothing is read twice; None where somebody came between."""
        try:
            with self._unit_of(found) as unit:
                return step(unit)
        except Contention:
            return None
        except Lost as error:
            return self._atomically(step, error.sent)
