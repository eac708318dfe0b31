"""Temporary copies of live tables, without their rows, in front of them for one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import psycopg
from django.db.models import Model

from ..scratch.differences import Differences, Kind
from .session import Session


def begin(session: Session, models: Iterable[type[Model]], found: Differences) -> None:
    """Copy the tables of models, and let nothing be written from here on but to these copies."""
    session.begin()
    labels = {model._meta.db_table: model._meta.label_lower for model in models}
    known = list(_unlike(session, labels))
    made = [table for table in labels if _copied(session, table, labels[table], found)]
    for table, detail in known:
        if table in made:
            found.add(Kind.NOT_ENFORCED, labels[table], detail=detail)
    for table in made:
        _number_anew(session, table, labels[table], found)
    session.tables = frozenset(made)
    session.close_off()


def quoted(name: str) -> str:
    """Quote a name."""
    return '"' + name.replace('"', '""') + '"'


def _copied(session: Session, table: str, label: str, found: Differences) -> bool:
    if '"' in table:
        found.add(Kind.NO_TABLE, label, detail="it names its schema, and is the live one")
        return False
    name = quoted(table)
    like = f"LIKE {name} INCLUDING ALL EXCLUDING COMMENTS EXCLUDING STATISTICS"
    session.own("SAVEPOINT celery_replay_copy")
    try:
        session.own(f"CREATE TEMPORARY TABLE {name} ({like}) ON COMMIT DROP")
    except psycopg.Error as error:  # such as a table that is not migrated yet, or that the role may not read
        session.own("ROLLBACK TO SAVEPOINT celery_replay_copy")
        found.add(Kind.NO_TABLE, label, detail=error.diag.message_primary)
        return False
    return True


def _unlike(session: Session, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Tell what the live tables have that is not copied."""
    tables = [table for table in labels if '"' not in table]
    for table, kind, names in session.own(_UNLIKE, [tables, [*map(quoted, tables)]]):
        yield table, f"{kind} {', '.join(names)}".rstrip()


def _number_anew(session: Session, table: str, label: str, found: Differences) -> None:
    """Give a copy sequences of its own where its live table's are; those of identities are copied with it."""
    name = quoted(table)
    for column, sequence, expression in session.own(_SEQUENCES, [f"pg_temp.{name}"]):
        mine = f"pg_temp.{quoted(sequence)}"
        session.own(f"CREATE TEMPORARY SEQUENCE IF NOT EXISTS {quoted(sequence)}")
        if not expression.startswith("nextval("):
            found.add(Kind.NOT_ENFORCED, label, column, "a default that is more than a sequence's next number")
        text = mine.replace("'", "''")
        session.own(f"ALTER TABLE pg_temp.{name} ALTER COLUMN {quoted(column)} SET DEFAULT nextval('{text}')")
        session.own(f"ALTER SEQUENCE {mine} OWNED BY pg_temp.{name}.{quoted(column)}")


def number(session: Session, highest: Mapping[str, int]) -> None:
    """Let new rows have numbers above these."""
    for table, most in highest.items():
        for column in _numbered(session, table) if table in session.tables else ():
            sequence = "pg_get_serial_sequence(%s, %s)"
            session.own(f"SELECT setval({sequence}, %s) WHERE %s > 0", [f"pg_temp.{quoted(table)}", column, most, most])


def _numbered(session: Session, table: str) -> Sequence[str]:
    return [column for (column,) in session.own(_NUMBERED, [f"pg_temp.{quoted(table)}"])]


_UNLIKE = """
WITH live AS (SELECT t, to_regclass(n) AS oid FROM unnest(%s::text[], %s::text[]) AS given (t, n))
SELECT t, 'foreign keys', array_agg(conname::text ORDER BY conname) FROM live
    JOIN pg_constraint ON conrelid = live.oid AND contype = 'f' GROUP BY t
UNION ALL SELECT t, 'triggers', array_agg(tgname::text ORDER BY tgname) FROM live
    JOIN pg_trigger ON tgrelid = live.oid AND NOT tgisinternal GROUP BY t
UNION ALL SELECT t, 'rules', array_agg(rulename::text ORDER BY rulename) FROM live
    JOIN pg_rewrite ON ev_class = live.oid AND rulename <> '_RETURN' GROUP BY t
UNION ALL SELECT t, 'row security', '{}' FROM live JOIN pg_class c ON c.oid = live.oid AND relrowsecurity
UNION ALL SELECT t, 'what makes it more than a table', '{}' FROM live JOIN pg_class c ON c.oid = live.oid
    AND relkind <> 'r'
"""
_SEQUENCES = """
SELECT attname, sequence.relname, pg_get_expr(adbin, adrelid) FROM pg_attrdef
JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
JOIN pg_depend ON classid = 'pg_attrdef'::regclass AND objid = pg_attrdef.oid AND refclassid = 'pg_class'::regclass
JOIN pg_class sequence ON sequence.oid = refobjid AND relkind = 'S'
WHERE adrelid = %s::regclass
"""
_NUMBERED = """
SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
AND pg_get_serial_sequence(attrelid::regclass::text, attname) IS NOT NULL
"""
