"""What a database's error code says about a failure: SQLSTATE, and the numbers of MySQL and MariaDB.

SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html, numbers:
https://mariadb.com/kb/en/mariadb-error-code-reference/
"""

from __future__ import annotations

from collections.abc import Mapping

from ..states import Category
from .rules import Judgement, Rule, paths

_STATES: Mapping[str, Category] = {
    "40": Category.CONCURRENCY,  # a transaction rolled back for others: serialization, deadlock
    "55P03": Category.CONCURRENCY,  # a lock that is not available
    "57014": Category.TRANSIENT,  # a statement that took too long
    "08": Category.DEPENDENCY,
    "53": Category.DEPENDENCY,  # no connections, no memory, no disk
    "57P": Category.DEPENDENCY,  # it shuts down, or starts
    "25006": Category.DEPENDENCY,  # read only, as after a failover
    "58": Category.DEPENDENCY,
    "22": Category.VALIDATION,
    "23": Category.VALIDATION,
    "42": Category.PERMANENT,
    "3D": Category.PERMANENT,
    "28": Category.PERMANENT,
}
"""By the longest beginning that fits."""

_NUMBERS: Mapping[Category, frozenset[int]] = {
    Category.CONCURRENCY: frozenset({1205, 1213, 3572, 1020}),
    Category.DEPENDENCY: frozenset({1040, 1053, 1077, 1129, 1152, 1158, 1159, 1160, 1161, 1203, 1290, 1836}
                                   | {2002, 2003, 2005, 2006, 2012, 2013, 2055, 1021, 1037, 1041}),
    Category.TRANSIENT: frozenset({1028, 1969, 3024}),
    Category.VALIDATION: frozenset({1048, 1062, 1216, 1217, 1264, 1265, 1292}
                                   | {1364, 1366, 1406, 1451, 1452, 3819, 4025}),
    Category.PERMANENT: frozenset({1044, 1045, 1049, 1054, 1064, 1142, 1146, 1305}),
}  # fmt: skip
_OF_MYSQL = ("pymysql.err.MySQLError", "MySQLdb._exceptions.MySQLError", "mysql.connector.errors.Error")
_OF_SQLITE = "sqlite3.OperationalError"
_BUSY = ("database is locked", "database table is locked", "database schema is locked")


def _judge(error: BaseException, made: int) -> Judgement | None:
    # Django and SQLAlchemy wrap the driver's error, which has the code.
    for link in (error, error.__cause__, getattr(error, "orig", None)):
        found = _of_driver(link) if isinstance(link, BaseException) else None
        if found is not None:
            return found
    return None


def _of_driver(error: BaseException) -> Judgement | None:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    category = _by_state(state) if isinstance(state, str) else None
    if category is not None:
        return _found(category, f"has SQLSTATE {state}")
    named = {*paths(error)}
    number = error.args[0] if error.args else None
    if isinstance(number, int) and not named.isdisjoint(_OF_MYSQL):
        # Many of its errors have the one state that says nothing.
        category = _by_number(number)
        return None if category is None else _found(category, f"has the database's error number {number}")
    if _OF_SQLITE in named and str(error).startswith(_BUSY):
        return _found(Category.CONCURRENCY, "says that SQLite is busy")
    return None


DATABASE = Rule("database error code", _judge, (*_OF_MYSQL, _OF_SQLITE, "any error with sqlstate or pgcode"))


def _by_state(state: str) -> Category | None:
    return next((_STATES[state[:size]] for size in (5, 3, 2) if state[:size] in _STATES), None)


def _by_number(number: int) -> Category | None:
    return next((category for category, numbers in _NUMBERS.items() if number in numbers), None)


def _found(category: Category, because: str) -> Judgement:
    return Judgement(category=category, rule=DATABASE.name, because=because)
