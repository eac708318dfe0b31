"""Counters of groups of dead letters, kept with the letters they count.

Every letter of one cause changes the same row. So each transaction does it last, when all its other locks are taken,
and in the order of the groups: it holds the row for no longer than its COMMIT takes, and two of them can't deadlock.
"""

from __future__ import annotations

from celery_replay.records import Group, evolve
from celery_replay.stores.units import HOUR

from .connections import Link
from .dialects import Dialect
from .models import LetterGroup, LetterTrend
from .statements import Statements
from .tables import GROUPS

TREND = LetterTrend._meta.db_table
BAR = "bar, group_id, hour, filed"
_GROUP = LetterGroup._meta.db_table
_NEWS = ("error_message", "newest", "last_seen")
"""What a group's newest letter changes; the rest is what makes it this group."""


class Tallies:
    """What one transaction has to add."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    def add(self, group: Group, filed: int, unresolved: int) -> None:
        """Add to a group's counters."""
        known = self._groups.get(group.group_id)
        newest = group if known is None or filed else known
        counted = (known.filed if known else 0) + filed, (known.unresolved if known else 0) + unresolved
        self._groups[group.group_id] = evolve(newest, filed=counted[0], unresolved=counted[1])

    def write(self, link: Link, statements: Statements) -> None:
        """Write them all."""
        for _, group in sorted(self._groups.items()):
            if group.filed:
                link.change(statements.insert(GROUPS) + counted(statements.dialect), GROUPS.row(group))
                _grow(link, statements, group)
            elif group.unresolved:
                mark = statements.dialect.mark
                sql = f"UPDATE {_GROUP} SET unresolved = unresolved + {mark} WHERE group_id = {mark}"
                link.change(sql, [group.unresolved, GROUPS.encode("group_id", group.group_id)])


def counted(dialect: Dialect) -> str:
    """Return what makes an INSERT of a group count in it, if it is there."""
    added = {name: f"{_GROUP}.{name} + {dialect.given(name)}" for name in ("filed", "unresolved")}
    return dialect.merge("group_id", {name: dialect.given(name) for name in _NEWS} | added)


def grown(dialect: Dialect) -> str:
    """Return what makes an INSERT of a bar count in it, if it is there."""
    return dialect.merge("bar", {"filed": f"{TREND}.filed + {dialect.given('filed')}"})


def _grow(link: Link, statements: Statements, group: Group) -> None:
    hour = group.last_seen - group.last_seen % HOUR
    group_id = GROUPS.encode("group_id", group.group_id)
    sql = f"INSERT INTO {TREND} ({BAR}) VALUES ({statements.marks(4)})"
    link.change(sql + grown(statements.dialect), [f"{group_id}:{hour}", group_id, hour, group.filed])
