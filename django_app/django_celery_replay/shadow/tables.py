"""Temporary copies of live tables, without their rows, in front of them for one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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
    _number_anew(session, {table: labels[table] for table in made}, found)
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
    copy, point = f"CREATE TEMPORARY TABLE {name} ({like}) ON COMMIT DROP", "SAVEPOINT celery_replay_copy"
    try:
        session.own(f"{point}; {copy}; RELEASE {point}")
    except psycopg.Error as error:  # such as a table that is not migrated yet, or that the role may not read
        session.own(f"ROLLBACK TO {point}")
        found.add(Kind.NO_TABLE, label, detail=error.diag.message_primary)
        return False
    return True


def _unlike(session: Session, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Tell what the live tables have that is not copied."""
    tables = [table for table in labels if '"' not in table]
    for table, kind, names in session.own(_UNLIKE, [tables, [*map(quoted, tables)]]):
        yield table, f"{kind} {', '.join(names)}".rstrip()


def _number_anew(session: Session, labels: Mapping[str, str], found: Differences) -> None:
    """Give copies sequences of their own where their live tables' are; those of identities are copied with them."""
    for table, column, sequence, expression in session.own(_SEQUENCES, [[*map(_copy_of, labels)]]):
        mine, name = _copy_of(sequence), quoted(column)
        if not expression.startswith("nextval("):
            found.add(Kind.NOT_ENFORCED, labels[table], column, "a default that is more than a sequence's next number")
        text = mine.replace("'", "''")
        session.own(f"CREATE TEMPORARY SEQUENCE IF NOT EXISTS {quoted(sequence)}")
        session.own(f"ALTER TABLE {_copy_of(table)} ALTER COLUMN {name} SET DEFAULT nextval('{text}')")
        session.own(f"ALTER SEQUENCE {mine} OWNED BY {_copy_of(table)}.{name}")


def number(session: Session, highest: Mapping[str, int]) -> None:
    """Let new rows have numbers above these."""
    given = {_copy_of(table): most for table, most in highest.items() if table in session.tables and most > 0}
    session.own(_SET, [[*given], [*given.values()]])


def _copy_of(name: str) -> str:
    return f"pg_temp.{quoted(name)}"


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
SELECT copy.relname, attname, sequence.relname, pg_get_expr(adbin, adrelid)
FROM pg_attrdef JOIN pg_class copy ON copy.oid = adrelid
JOIN pg_attribute ON attrelid = adrelid AND attnum = adnum
JOIN pg_depend ON classid = 'pg_attrdef'::regclass AND objid = pg_attrdef.oid AND refclassid = 'pg_class'::regclass
JOIN pg_class sequence ON sequence.oid = refobjid AND sequence.relkind = 'S'
WHERE adrelid = ANY (%s::text[]::regclass[])
"""
_SET = """
SELECT setval(pg_get_serial_sequence(copy, attname), most) FROM unnest(%s::text[], %s::bigint[]) AS given (copy, most)
JOIN pg_attribute ON attrelid = copy::regclass AND attnum > 0 AND NOT attisdropped
WHERE pg_get_serial_sequence(copy, attname) IS NOT NULL
"""
