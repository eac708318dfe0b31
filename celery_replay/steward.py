"""The steward: frees parked jobs, files lost ones, sends operations, delivers what was spooled, tells journals, prunes.

Every worker spawns one; a lease in the store decides which of all of them leads. It needs the app's configuration,
and none of its tasks.
"""

from __future__ import annotations

import logging
import os
import pickle
import select
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from celery import Celery

from . import news as news_pipe
from . import parking
from .clock import SECOND, micros, new_id
from .exceptions import StoreUnavailable
from .lifecycle import Ending
from .logs import logger_of
from .losses import News
from .records import Chunk, evolve
from .replay import driving
from .runtime import Runtime, runtime_of, store_url
from .stores.base import Store
from .trace import Recorder, summarised

logger = logger_of(__name__)

COMMAND = "from celery_replay.steward import main; main()"
"""What a worker's Python child runs."""
PERIOD = 1.0
_LEAD_TTL = 4.0
"""Seconds for which nobody leads after a leader was killed; a few rounds."""
_PRUNE_EVERY = 60.0
_ARCHIVE_PAUSE = 10.0
"""Seconds until a journal is tried again that could not be reached."""
_THIN_EVERY = 3600.0
"""Seconds between two passes through all jobs whose details may go."""
_PLACE_PAUSE = 5.0
"""Seconds between two looks for large values that go elsewhere."""
_FETCHED = 200
"""Items of spooled news in one round: the lead must not lapse over a flood of them."""


def see_that_it_works(store: Store) -> None:
    """Try a store before any work depends on it. One that can't be reached now is no reason to stop: it may come back.

    Raises:
        ConfigurationError: it can't be what was meant.
        SchemaMismatch: its tables are missing, or of another version.
    """
    try:
        store.check()
    except StoreUnavailable:
        logger.warning("replay.store_down", exc_info=True)
    finally:
        store.close_connections()


class Steward:
    """One steward's work, round by round.

    Args:
        leads: whether it may become the one that works for the whole store.
    """

    def __init__(self, runtime: Runtime, *, leads: bool = True) -> None:
        self.runtime = runtime
        self.nonce = new_id()
        self._leads = leads
        self._stop = threading.Event()
        self._next_prune = 0.0
        self._next_archive = 0.0
        self._next_place = 0.0
        self._next_thinning = 0.0
        self._thinned = ""
        self._placing: threading.Thread | None = None
        self._next_operate = 0.0
        self._behind = False
        self._failing: set[str] = set()

    def hear(self, item: News) -> None:
        """Act on news of an attempt that could not close itself."""
        self._guarded("hear", lambda: self._hear(item, new_id()))

    def _hear(self, item: News, name: str) -> None:
        self._dispatch(self.runtime.store.hear(item))
        if item.trace_id:
            told = Recorder(item.trace_id, name, {"job": item.task_id, "worker": f"{item.worker}/{item.pid}"})
            told.record(str(item.reason), status="fail", plain=_told(item))
            self._guarded("tell", lambda: self.runtime.store.flush(chunks=told.take()))

    def fetch(self, path: Path) -> None:
        """Act on news that waits in the spool, with its message; it stays there until the store has taken it."""
        self._guarded("fetch", lambda: self._fetch(path))

    def _fetch(self, path: Path) -> None:
        found = self.runtime.spool.news(path)
        if found is not None:
            item, cover, body = found
            # Stewards of one machine share the spool: told under one name, its event is one.
            self._hear(evolve(item, message=parking.keep_raw(cover, body)), path.stem)
            path.unlink(missing_ok=True)

    def round(self) -> None:
        """Do what is due now."""
        self._guarded("spool", self._deliver_spooled)
        for path in islice(self.runtime.spool.waiting_news(), _FETCHED):
            self.fetch(path)
        self._guarded("lead", self._lead)

    def _lead(self) -> None:
        store = self.runtime.store
        if not self._leads or not store.lead(self.nonce, micros(_LEAD_TTL)):
            return
        self._guarded("mark", store.keep_mark)
        self._dispatch(store.release_due())
        store.reap()
        if time.monotonic() >= self._next_operate:
            self._next_operate = time.monotonic() + _ARCHIVE_PAUSE
            self._guarded("operate", self._operate)
        if time.monotonic() >= self._next_archive:
            # Whatever comes of it: a journal that is down must not be asked in each round, as asking takes its time.
            self._next_archive = time.monotonic() + _ARCHIVE_PAUSE
            self._guarded("archive", self._archive)
        self._place()
        if time.monotonic() >= self._next_prune:
            self._next_prune = time.monotonic() + _PRUNE_EVERY
            self._guarded("prune", self._prune)

    def _operate(self) -> None:
        until = time.monotonic() + PERIOD
        while driving.drive_all(self.runtime) and time.monotonic() < until:
            pass
        self._next_operate = 0.0

    def _archive(self) -> None:
        until = time.monotonic() + PERIOD
        while self.runtime.store.archive():
            self._behind = time.monotonic() >= until
            if self._behind:
                break
        self._next_archive = 0.0

    def _place(self) -> None:
        """Put large values elsewhere, in a thread: a place that does not answer must hold up nobody."""
        busy = self._placing is not None and self._placing.is_alive()
        if self.runtime.store.elsewhere is None or busy or time.monotonic() < self._next_place:
            return
        self._next_place = time.monotonic() + _PLACE_PAUSE
        self._placing = threading.Thread(target=self._guarded, args=("blobs", self._place_all), daemon=True)
        self._placing.start()

    def _place_all(self) -> None:
        store = self.runtime.store
        while not self._stop.is_set() and store.place_blobs():
            pass
        store.sweep_blobs()

    def _prune(self) -> None:
        while self.runtime.store.prune():
            time.sleep(0.05)
        detail_us = micros(self.runtime.settings.detail_retention)
        if detail_us and time.monotonic() >= self._next_thinning:
            until = time.monotonic() + PERIOD
            more = True
            while more and time.monotonic() < until:
                _, self._thinned = self.runtime.store.thin(detail_us, summarised, self._thinned)
                more = bool(self._thinned)
            if not more:
                # All over again: what was kept, or waited for somebody, may do so no more.
                self._next_thinning = time.monotonic() + _THIN_EVERY

    def _dispatch(self, rows: Any) -> None:
        parking.dispatch(self.runtime.app, self.runtime.store, rows, self.runtime.resend_us)

    def _deliver_spooled(self) -> None:
        for path, ending, chunks in self.runtime.spool.waiting():
            # Each by itself: one that the store refuses must not hold up the others.
            self._guarded("deliver", partial(self._deliver, path, ending, chunks))

    def _deliver(self, path: Path, ending: Ending, chunks: list[Chunk]) -> None:
        accepted, freed = self.runtime.store.close(None, ending, chunks)
        path.unlink(missing_ok=True)
        logger.log(
            logging.INFO if accepted else logging.WARNING,
            "replay.spooled_close_delivered",
            extra={"submission": ending.delivery.submission, "accepted": accepted},
        )
        self._dispatch(freed)

    def _guarded(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            # Said once per outage, not once per second.
            if what not in self._failing:
                logger.warning("replay.steward_failed", exc_info=True, extra={"work": what})
            self._failing.add(what)
        else:
            self._failing.discard(what)

    def run(self, inbox: int | None = None, parent: int | None = None) -> None:
        """Work until stopped, until the inbox is closed, or until the parent is gone.

        Args:
            inbox: a descriptor with news, if there is one.
            parent: the process id whose end is ours.
        """
        pending = b""
        next_round = time.monotonic()
        while not self._stop.is_set() and (parent is None or os.getppid() == parent):
            wait = max(0.0, next_round - time.monotonic())
            if inbox is None:
                self._stop.wait(wait)
            elif select.select([inbox], [], [], wait)[0]:
                received = os.read(inbox, 65536)
                if not received:
                    return
                complete, _, pending = (pending + received).rpartition(b"\n")
                for item in news_pipe.read(complete):
                    self._take(item)
            if time.monotonic() >= next_round:
                self._behind = False
                self.round()
                next_round = time.monotonic() + (0 if self._behind else PERIOD)

    def _take(self, item: News | str) -> None:
        if isinstance(item, News):
            self.hear(item)
        else:
            # A name, whatever folder it says: nothing outside of the spool is read.
            self.fetch(self.runtime.spool.folder / Path(item).name)

    def stop(self) -> None:
        """Let `run` end."""
        self._stop.set()


def _told(item: News) -> dict[str, Any]:
    """Say in the trace what led to it: which limit was exceeded, what Celery does instead."""
    facts = {
        "error": item.error_type,
        "message": item.error[:500],
        "limit": "hard" if item.limit_s is not None else None,
        "limit_s": item.limit_s,
        "retried_in_s": None if item.retry_us is None else item.retry_us / SECOND,
    }
    return {name: value for name, value in facts.items() if value not in (None, "")}


def hand_over(app: Any) -> bytes:
    """Pack what a spawned steward needs, as Celery does for a spawned pool: the app, to be sent by a private pipe."""
    settings = runtime_of(app).settings
    # Said in so many words: what a setting is inferred from may look otherwise there.
    store = {"replay_store": None, "replay_ledger": None, "replay_journal": settings.journal}
    store["replay_ledger" if settings.journal else "replay_store"] = store_url(settings, app.conf)
    parts = app.__reduce_keys__()
    parts["changes"] = {name: value for name, value in parts["changes"].items() if _travels(name, value)}
    parts["config_source"] = _by_name(parts["config_source"])
    kind = type(app) if _travels("app", type(app)) else Celery
    packed = pickle.dumps((kind, {name: part for name, part in parts.items() if _travels(name, part)}))
    body = pickle.dumps((os.getpid(), list(sys.path), store, packed))
    return struct.pack(">Q", len(body)) + body


def _by_name(source: Any) -> Any:
    """Name where settings come from, if that is a module or a class: the other process can import it."""
    if isinstance(source, ModuleType):
        return source.__name__
    return f"{source.__module__}:{source.__qualname__}" if isinstance(source, type) else source


def _travels(name: str, value: Any) -> bool:
    """Can a process that imports none of the project's scripts be given this? A steward needs no router, say."""
    try:
        travels = b"__main__" not in pickle.dumps(value)
    except Exception:  # functions without a name, locks, sockets
        travels = False
    if not travels:
        logger.debug("replay.steward_goes_without", extra={"setting": name})
    return travels


def main() -> None:
    """Run as a worker's child, its parent at the other end of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    (length,) = struct.unpack(">Q", _exactly(8))
    parent, path, store, packed = pickle.loads(_exactly(length))  # noqa: S301 - from the parent's own memory
    sys.path[:] = path
    kind, parts = pickle.loads(packed)  # noqa: S301
    app = kind(**parts, set_as_current=False)
    for name, value in store.items():
        setattr(app.conf, name, value)
    runtime = runtime_of(app)
    Steward(runtime, leads=runtime.settings.steward == "embedded").run(inbox=0, parent=parent)


def _exactly(count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = os.read(0, count - len(received))
        if not part:
            raise SystemExit("started by workers only; to run a steward by hand: celery -A proj replay steward")
        received += part
    return received
