"""A shadow's connection: one transaction for all of a run, which nothing of the run can end."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import psycopg
from psycopg.pq import TransactionStatus

from celery_replay.exceptions import SandboxBlocked

from . import guard
from .places import Shadow

WAIT_S = 5
"""How long a thread waits for another one's transaction: as long as on SQLite."""
EVENT = "database.statement"
"""The audit event by which a report hears of what was refused."""

_STATEMENT = f"{guard.OURS}statement"
_HELD_BY = {
    "25006": "the READ ONLY transaction",
    "42501": "the rights of its role",
    "25001": "the transaction",
    "25P01": "the transaction",
    "2D000": "the transaction",
}
"""Who refused it, by SQLSTATE."""
_TABLE = re.compile(r'(?:FROM|JOIN|UPDATE|INTO)\s+"([^"]+)"')

_LOCKS = """
SELECT DISTINCT CASE locktype WHEN 'advisory' THEN 'an advisory lock' ELSE 'a lock of ' || relname END
FROM pg_locks LEFT JOIN pg_class ON locktype = 'relation' AND pg_class.oid = relation
WHERE pid = pg_backend_pid() AND (locktype = 'advisory' OR mode <> 'AccessShareLock'
AND relpersistence <> 't' AND relkind IN ('r', 'p', 'v', 'm', 'f') AND relnamespace <> 'pg_catalog'::regnamespace)
"""

sessions: dict[str, Session] = {}
"""Those of this process, by the aliases that they were opened for."""


def told(what: str, held_by: str) -> str:
    """Say what was tried, and what held."""
    return f"{what}, held by {held_by}"


def refuse(what: str, held_by: str = "the guard") -> NoReturn:
    """Refuse something, and let the report tell."""
    said = told(what, held_by)
    sys.audit(EVENT, said)
    raise SandboxBlocked(f"a shadow database does not do this: {said}")


class Session(psycopg.Connection[Any]):
    """A connection in a transaction that is never committed.

    Django's transactions are savepoints of it. So is each statement outside of them, or one that fails would be the
    last. A thread that wants in while another one is in a transaction waits, and fails after five seconds.
    """

    tables: Collection[str] = frozenset()
    """Those that have a copy."""
    shadow: Shadow
    used: set[str]
    """Those that statements were about, as far as Django wrote them."""
    notified: int = 0
    """Statements that would have told other sessions something."""
    _identity: int | None = None
    _depth: int = 0
    _flowing: bool = False
    """Is a result being read as it comes, or rows being copied?"""

    def start(self, shadow: Shadow) -> None:
        """Begin to be lent: what comes before the copies are made may read."""
        self.shadow = shadow
        self.used = set()
        self._turn = threading.RLock()
        self._plain = psycopg.Cursor(self)
        self.own(f"BEGIN READ ONLY; SAVEPOINT {_STATEMENT}")

    def own(self, sql: str, params: Any = None) -> list[Any]:
        """Run a statement of our own, past the guard."""
        self._await_interrupted()
        self._plain.execute(sql, params)
        return self._plain.fetchall() if self._plain.description else []

    def _await_interrupted(self) -> None:
        """Wait for a statement that something else than its end has called its thread away from, as a time limit does.

        Elsewhere such a connection is given up for another one; here it would be of no use any more.
        """
        if self.info.transaction_status is TransactionStatus.ACTIVE and not self._flowing:
            while self.pgconn.get_result() is not None:
                pass

    def begin(self) -> None:
        """Begin the transaction anew, for the copies."""
        self.own("ROLLBACK")
        self.own("BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE")

    def close_off(self) -> None:
        """Let nothing more be written to what is live: from here on PostgreSQL lets nobody take this back."""
        ((self._identity,),) = self.own("SELECT txid_current()")
        self.own(f"SET TRANSACTION READ ONLY; SAVEPOINT {_STATEMENT}")

    def is_intact(self) -> bool:
        """Is the transaction still the one that was begun?"""
        if self.closed or self.info.transaction_status is TransactionStatus.IDLE:
            return False
        with suppress(psycopg.Error):
            self._recover()
            return self.own("SELECT txid_current_if_assigned()") == [(self._identity,)]
        return False

    def locks(self) -> Sequence[str]:
        """Name what it keeps others from, behind the guard's back."""
        return [str(what) for (what,) in self.own(_LOCKS)]

    # Transactions of Django's

    def begin_block(self) -> None:
        """Begin a transaction."""
        self._take_turn()
        try:
            if not self._depth:
                self._renew()
            self.own(f"SAVEPOINT {guard.OURS}block_{self._depth + 1}")
        except BaseException:
            self._turn.release()
            raise
        self._depth += 1

    def commit_block(self) -> None:
        """Keep what the transaction did, after its deferred constraints are checked; another one begins."""
        if self.info.transaction_status is TransactionStatus.INERROR:
            # So does PostgreSQL.
            self.roll_block_back()
            return
        self.own(
            f"SAVEPOINT {guard.OURS}checks; SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK TO SAVEPOINT {guard.OURS}checks"
        )
        self.own(f"RELEASE SAVEPOINT {self._block}; SAVEPOINT {self._block}")

    def roll_block_back(self) -> None:
        """Take back what the transaction did; another one begins."""
        self.own(f"ROLLBACK TO SAVEPOINT {self._block}")

    def end_block(self) -> None:
        """Be in no transaction any more."""
        try:
            if not self.closed and self.info.transaction_status is not TransactionStatus.IDLE:
                if self.info.transaction_status is TransactionStatus.INERROR:
                    self.roll_block_back()
                self.own(f"RELEASE SAVEPOINT {self._block}")
        finally:
            self._depth -= 1
            self._turn.release()

    @property
    def _block(self) -> str:
        return f"{guard.OURS}block_{self._depth}"

    # Statements

    @contextmanager
    def guarded(self, query: Any, *, flowing: bool = False) -> Iterator[None]:
        """Run a statement of the project's.

        Args:
            flowing: others may be run before it is at its end.
        """
        text = _text(query, self)
        self.used.update(_TABLE.findall(text))
        refused = guard.objection(text, self.tables)
        if refused is not None:
            refuse(refused)
        self._take_turn()
        around = self._flowing
        try:
            if not self._depth:
                self._renew()
            self._flowing = flowing or around
            yield
            self.notified += guard.notifies(text)
        except psycopg.Error as error:
            _tell(error, text)
            raise
        finally:
            self._flowing = around
            self._turn.release()

    def _renew(self) -> None:
        """Keep what the last statement did, or take it back if it failed."""
        if self.info.transaction_status is TransactionStatus.IDLE:
            refuse("a statement after the end of the transaction")
        if self.info.transaction_status is TransactionStatus.INERROR:
            self.own(f"ROLLBACK TO SAVEPOINT {_STATEMENT}")
        else:
            self.own(f"RELEASE SAVEPOINT {_STATEMENT}; SAVEPOINT {_STATEMENT}")

    def _recover(self) -> None:
        if self.info.transaction_status is TransactionStatus.INERROR:
            self.own(f"ROLLBACK TO SAVEPOINT {_STATEMENT}")

    def _take_turn(self) -> None:
        if not self._turn.acquire(timeout=WAIT_S):
            raise psycopg.OperationalError(
                f"another thread of this job has been in a transaction for {WAIT_S} s; a shadow database has one"
            )

    # What the driver would do by itself

    @contextmanager
    def transaction(self, savepoint_name: str | None = None, force_rollback: bool = False) -> Iterator[Any]:
        """Begin a savepoint."""
        self.begin_block()
        try:
            with super().transaction(savepoint_name, force_rollback) as found:
                yield found
        finally:
            self.end_block()

    def commit(self) -> None:
        """Refuse to."""
        refuse("COMMIT")

    def rollback(self) -> None:
        """Refuse to."""
        refuse("ROLLBACK")

    def set_autocommit(self, value: bool) -> None:
        """Refuse to have the driver begin transactions."""
        if not value:
            refuse("BEGIN")

    def _set_autocommit(self, value: bool) -> None:
        self.set_autocommit(value)

    def tpc_begin(self, xid: Any) -> None:
        """Refuse to."""
        refuse("PREPARE TRANSACTION")

    def pipeline(self) -> Any:
        """Refuse to: each statement is looked at."""
        raise psycopg.NotSupportedError("a shadow database has no pipelines")


def _text(query: Any, connection: Session) -> str:
    if isinstance(query, bytes):
        return query.decode("utf-8", "surrogateescape")
    return query if isinstance(query, str) else str(query.as_string(connection))


def _tell(error: psycopg.Error, text: str) -> None:
    """Let the report have what the server refused; its message names commands and tables, and no values."""
    held_by = _HELD_BY.get(error.sqlstate or "")
    if held_by is not None:
        with suppress(SandboxBlocked):
            sys.audit(EVENT, told(f"{guard.summary(text)}: {error.diag.message_primary}", held_by))


class Guarded:
    """Makes a class of cursors one that asks its session before each statement."""

    connection: Session

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Run a statement."""
        with self.connection.guarded(query):
            return super().execute(query, params, **options)  # type: ignore[misc]

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> Any:
        """Run a statement for each list of parameters."""
        with self.connection.guarded(query):
            return super().executemany(query, params_seq, **options)  # type: ignore[misc]

    def stream(self, query: Any, params: Any = None, **options: Any) -> Iterator[Any]:
        """Run a query, and yield its rows as they come."""
        with self.connection.guarded(query, flowing=True):
            yield from super().stream(query, params, **options)  # type: ignore[misc]

    @contextmanager
    def copy(self, statement: Any, params: Any = None, **options: Any) -> Iterator[Any]:
        """Copy rows."""
        with self.connection.guarded(statement, flowing=True), super().copy(statement, params, **options) as found:  # type: ignore[misc]
            yield found


def guarded(cursor: type[Any]) -> type[Any]:
    """Return a class of cursors that asks first."""
    return type(f"Guarded{cursor.__name__}", (Guarded, cursor), {})


def open_all(shadows: Mapping[str, Shadow]) -> list[int]:
    """Connect, in a child that is not locked up yet; return what is to stay open.

    Raises:
        psycopg.Error: a server does not let us in.
    """
    for alias, shadow in shadows.items():
        params = shadow.params()
        session: Any = Session.connect(
            **{**params, "cursor_factory": guarded(params["cursor_factory"]), "autocommit": True}
        )
        session.server_cursor_factory = guarded(shadow.server_cursor)
        session.start(shadow)
        sessions[alias] = session
    return [session.fileno() for session in sessions.values()]


def ended() -> Mapping[str, Session]:
    """End all transactions, where that was not done by somebody else, which is told.

    Returns:
        The sessions, to be asked what they have seen.
    """
    for alias, session in sessions.items():
        if not session.is_intact():
            with suppress(SandboxBlocked):
                held_by = "nothing from then on" if session.shadow.may else "the rights of its role from then on"
                refuse(f"its transaction on {alias!r} was ended", held_by)
        else:
            for lock in session.locks():
                with suppress(SandboxBlocked):
                    refuse(lock, "its rollback, which came at the end of the run")
        session.close()
    return sessions
