"""Which databases have a shadow, as what role, and what that role may do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connections
from django.db.utils import load_backend

from celery_replay.exceptions import ShadowUnavailable

_NOT_OURS = ("pool", "assume_role", "isolation_level")
"""Options of Django's that are about transactions and roles of the project."""
_GIVEN = frozenset({"USER", "PASSWORD", "HOST", "PORT", "NAME", "OPTIONS"})
_MENDS = 'see "With PostgreSQL\'s own SQL" in the how-to of dry runs'


@dataclass(frozen=True, kw_only=True)
class Shadow:
    """How one database's shadow is reached, and what holds it."""

    entry: Mapping[str, Any] = field(repr=False)
    """The project's entry of DATABASES with what the setting says otherwise."""
    alias: str
    role: str = ""
    may: Sequence[str] = ()
    """What the role may do beside reading."""
    version: int = 0
    """The server's."""

    def params(self) -> dict[str, Any]:
        """Return what the driver connects with."""
        wrapper: Any = load_backend(self.entry["ENGINE"]).DatabaseWrapper(self.entry, self.alias)
        params: dict[str, Any] = wrapper.get_connection_params()
        # A body that went past all guards would still be in READ ONLY transactions, until it says otherwise.
        options = [params.get("options", ""), "-c default_transaction_read_only=on"]
        if self.version >= 14_00_00:
            # A statement is not to outlive its process, which is killed at the deadline.
            options.append("-c client_connection_check_interval=1000")
        return {
            "connect_timeout": 5,
            "application_name": "celery-replay dry run",
            **params,
            **({"options": " ".join(options)} if self.version else {}),
        }

    @property
    def server_cursor(self) -> type[Any]:
        """The class of its cursors on the server."""
        from django.db.backends.postgresql import base
        from psycopg import ServerCursor

        binds_there = self.entry["OPTIONS"].get("server_side_binding") is True
        # Django 4.2 has none of its own.
        return ServerCursor if binds_there else getattr(base, "ServerSideCursor", ServerCursor)

    def __str__(self) -> str:
        if not self.may:
            return f"{self.alias} as {self.role}, which can only read"
        return f"{self.alias} guarded, not enforced: {self.role} {self.may[0]}"


def probe(setting: Mapping[str, Mapping[str, Any]], *, strict: bool) -> dict[str, Shadow]:
    """Look at what the setting leads to.

    Args:
        setting: by aliases, what is otherwise than in their entries of DATABASES.
        strict: refuse a role that may write.

    Raises:
        ShadowUnavailable: one can't be had.
    """
    return {alias: _probed(alias, entry_of(alias, given), strict=strict) for alias, given in setting.items()}


def entry_of(alias: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a shadow.

    Raises:
        ShadowUnavailable: there can't be one, whatever the server says.
    """
    if alias not in connections.settings:
        raise ShadowUnavailable(
            f"replay_sandbox_database names the database {alias!r}, which is not in DATABASES; name one of "
            + ", ".join(sorted(connections.settings))
        )
    unknown = ", ".join(map(repr, sorted({*given} - _GIVEN)))
    if unknown:
        may = ", ".join(sorted(_GIVEN))
        raise ShadowUnavailable(f"replay_sandbox_database[{alias!r}] has {unknown}; it may have {may}")
    known = connections.settings[alias]
    if connections.create_connection(alias).vendor != "postgresql":
        raise ShadowUnavailable(f"the database {alias!r} is not PostgreSQL: take it off replay_sandbox_database")
    _need_driver()
    options = {**known.get("OPTIONS", {}), **given.get("OPTIONS", {})}
    kept = {name: value for name, value in options.items() if name not in _NOT_OURS}
    return {**known, **given, "OPTIONS": kept}


def _need_driver() -> None:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    if not is_psycopg3:
        raise ShadowUnavailable("shadow databases need psycopg 3: install psycopg, or take off replay_sandbox_database")


def _probed(alias: str, entry: Mapping[str, Any], *, strict: bool) -> Shadow:
    import psycopg

    plain = Shadow(entry=entry, alias=alias)
    try:
        with psycopg.connect(**{**plain.params(), "cursor_factory": psycopg.Cursor, "autocommit": True}) as connection:
            ((pid, role, follows),) = connection.execute(
                "SELECT pg_backend_pid(), current_user, pg_is_in_recovery()"
            ).fetchall()
            # Whoever lends a server's sessions out must hand out keys of his own: a request to cancel says nothing
            # else, and is to meet the session that is lent at that moment.
            if pid != connection.info.backend_pid:
                raise ShadowUnavailable(
                    f"the database {alias!r} is reached through a pooler, which may change the session between two "
                    "statements: give HOST and PORT of the server itself in replay_sandbox_database"
                )
            if follows:
                raise ShadowUnavailable(
                    f"the database {alias!r} is reached at a standby, where no copy of a table can be made: give HOST "
                    "and PORT of the primary in replay_sandbox_database"
                )
            may = [str(one) for (one,) in connection.execute(_MAY)]
            found = Shadow(entry=entry, alias=alias, role=role, may=may, version=connection.info.server_version)
    except psycopg.Error as error:
        raise ShadowUnavailable(f"the shadow of {alias!r} can't be reached: {error}; {_MENDS}") from None
    if strict and may:
        raise ShadowUnavailable(
            f"the shadow of {alias!r} is not enforced by the database: {role} {may[0]}; {_MENDS}, or don't require it"
        )
    return found


_MAY = """
WITH me AS (SELECT * FROM pg_roles WHERE rolname = current_user), places AS (
    SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
), told AS (
    SELECT 1 AS n, 'is a superuser' AS what FROM me WHERE rolsuper
    UNION ALL SELECT 2, 'may create roles' FROM me WHERE rolcreaterole AND NOT rolsuper
    UNION ALL SELECT 3, 'may replicate' FROM me WHERE rolreplication AND NOT rolsuper
    UNION ALL SELECT 4, 'may act as ' || other.rolname FROM me, pg_roles other
        WHERE NOT me.rolsuper AND other.oid <> me.oid AND pg_has_role(me.oid, other.oid, 'MEMBER')
        AND other.rolname NOT IN ('pg_read_all_data', 'pg_read_all_settings', 'pg_read_all_stats', 'pg_monitor',
        'pg_stat_scan_tables')
    UNION ALL SELECT 5, 'may write to ' || min(relname) || CASE count(*) WHEN 1 THEN '' ELSE
        ' and ' || count(*) - 1 || ' more' END
        FROM pg_class JOIN places ON places.oid = relnamespace WHERE CASE
            WHEN relkind IN ('r', 'p', 'v', 'f') THEN has_any_column_privilege(pg_class.oid, 'INSERT, UPDATE')
                OR has_table_privilege(pg_class.oid, 'DELETE, TRUNCATE')
            WHEN relkind = 'S' THEN has_sequence_privilege(pg_class.oid, 'USAGE, UPDATE')
        END HAVING count(*) > 0
    UNION ALL SELECT 6, 'may create in the schema ' || nspname FROM places WHERE has_schema_privilege(oid, 'CREATE')
    UNION ALL SELECT 7, 'may create schemas' WHERE has_database_privilege(current_database(), 'CREATE')
) SELECT what FROM told ORDER BY n, what
"""
