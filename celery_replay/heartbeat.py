"""One thread per process that renews leases and writes what was buffered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from .clock import SECOND, Micros
from .logs import logger_of
from .records import Chunk, Job, StepRecord
from .stores.base import Pulse, Store

logger = logger_of(__name__)


class Beating(Protocol):
    """An attempt, as the heartbeat sees it."""

    nonce: str
    is_eager: bool
    """It was called in this process, and not delivered to it."""

    @property
    def lease_us(self) -> Micros:
        """How long a lease lasts without being renewed."""

    @property
    def pulse(self) -> Pulse:
        """What renews its leases."""

    def take(self) -> tuple[list[Chunk], list[StepRecord]]:
        """Hand over buffered events and settled steps."""

    def put_back(self, chunks: list[Chunk], steps: list[StepRecord]) -> None:
        """Take back what could not be written."""

    @property
    def calm(self) -> Job | None:
        """The job that nothing is in doubt of once its steps are settled."""

    def renewed(self) -> None:
        """The lease was prolonged."""

    def lost(self) -> None:
        """Another attempt took over."""


class Heartbeat:
    """Renews the leases of the attempts that run in this process, and flushes what they and their tracers buffered.

    The thread starts with the first attempt, so always after a fork. Where the store is away, everything is kept and
    tried again; a lease that could not be renewed in time is the attempt's to notice.
    """

    def __init__(self, store: Callable[[], Store], interval: float) -> None:
        self._store = store
        self._interval = interval
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._wanted = threading.Event()
        self._sooner = threading.Event()
        self._thread: threading.Thread | None = None
        self._attempts: dict[str, Beating] = {}
        self._due: dict[str, float] = {}
        self._writing: frozenset[str] = frozenset()
        self._advanced: list[str] = []
        self._loose: list[Chunk] = []

    def add(self, attempt: Beating) -> None:
        """Keep an attempt's lease until `remove`."""
        nonce, period = attempt.nonce, _period(attempt)
        with self._lock:
            self._attempts[nonce] = attempt
            # The first time soon: it brings the message along, which most attempts are too short to need.
            self._due[nonce] = time.monotonic() + min(period, self._interval)
        if period < self._interval:
            # Leases are renewed in time, however seldom events are to be written.
            self._interval = period
            self._sooner.set()
        self._want()

    def remove(self, attempt: Beating) -> None:
        """Let an attempt's lease be, and wait for what is being written of it: if that fails, it gets it back."""
        nonce = attempt.nonce
        with self._lock:
            self._attempts.pop(nonce, None)
            self._due.pop(nonce, None)
            writing = nonce in self._writing
        if writing:
            with self._flushing:
                pass

    def is_serving(self) -> bool:
        """Does a job run in this process that was delivered to it?"""
        return any(not attempt.is_eager for attempt in list(self._attempts.values()))

    def advanced(self, submission: str) -> None:
        """Note, at the next flush, that a submission's canvas was sent on."""
        with self._lock:
            self._advanced.append(submission)
        self._want()

    def write(self, chunks: Iterable[Chunk]) -> None:
        """Write events of an attempt that is over at the next flush."""
        with self._lock:
            self._loose.extend(chunks)
        self._want()

    def _want(self) -> None:
        # As long as something is wanted, the thread is about it.
        if not self._wanted.is_set():
            if self._thread is None or not self._thread.is_alive():
                self._start()
            self._wanted.set()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="celery-replay-heartbeat", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        try:
            self._keep_beating()
        finally:
            self._thread = None
            self._wanted.clear()

    def _keep_beating(self) -> None:
        while True:
            self._wanted.wait()
            self._sooner.wait(self._interval)
            self._sooner.clear()
            self.beat()
            with self._lock:
                if not (self._attempts or self._advanced or self._loose):
                    self._wanted.clear()

    def beat(self) -> bool:
        """Flush and renew now; return whether the store took it."""
        with self._flushing:
            flushed = self._guarded(self._flush)
            return self._guarded(self._renew) and flushed

    def _guarded(self, part: Callable[[], None]) -> bool:
        try:
            part()
        except Exception:
            logger.warning("replay.heartbeat_failed", exc_info=True)
            return False
        return True

    def _flush(self) -> None:
        with self._lock:
            advanced, self._advanced = self._advanced, []
            loose, self._loose = self._loose, []
            taken = [(attempt, *attempt.take()) for attempt in self._attempts.values()]
            self._writing = frozenset(self._attempts)
        chunks = [*loose, *(chunk for _, those, _ in taken for chunk in those)]
        steps = [step for _, _, those in taken for step in those]
        if not (advanced or chunks or steps):
            self._writing = frozenset()
            return
        try:
            calm = [attempt.calm for attempt, _, those in taken if those]
            self._store().flush(advanced, chunks, steps, [job for job in calm if job is not None])
        except BaseException:
            with self._lock:
                self._advanced[:0] = advanced
                self._loose[:0] = loose
            for attempt, its_chunks, its_steps in taken:
                attempt.put_back(its_chunks, its_steps)
            raise
        finally:
            self._writing = frozenset()

    def _renew(self) -> None:
        now = time.monotonic()
        with self._lock:
            due = [self._attempts[nonce] for nonce, when in self._due.items() if when <= now]
        if not due:
            return
        lost = self._store().renew([attempt.pulse for attempt in due])
        for attempt in due:
            nonce = attempt.nonce
            if nonce in lost:
                self.remove(attempt)
                attempt.lost()
            else:
                attempt.renewed()
                with self._lock:
                    if nonce in self._due:
                        self._due[nonce] = now + _period(attempt)

    def drain(self) -> None:
        """Write what is left before the process ends."""
        if self._advanced or self._loose or self._attempts:
            self.beat()


def _period(attempt: Beating) -> float:
    return attempt.lease_us / SECOND / 3
