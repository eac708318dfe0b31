"""Counters of groups of dead letters, kept with the letters they count.

Every letter of one cause changes the same row. So each transaction does it last, when all its other locks are taken,
and in the order of the groups: it holds the row for no longer than its COMMIT takes, and two of them can't deadlock.
The short way does not even wait for that: while others have the row, a letter is put down as uncounted.
"""

from __future__ import annotations

from collections import Counter

from celery_replay.clock import Micros
from celery_replay.records import Group, evolve
from celery_replay.stores.units import HOUR

from .connections import Link
from .dialects import Dialect
from .models import LetterGroup, LetterTrend
from .statements import Statements
from .tables import GROUPS, UNCOUNTED

TREND = LetterTrend._meta.db_table
BAR = "bar, group_id, hour, filed"
_GROUP = LetterGroup._meta.db_table
_NEWS = ("error_message", "newest", "last_seen")
"""What a group's newest letter changes; the rest is what makes it this group. The time comes last: MySQL compares it
with what it has just set."""


class Tallies:
    """What one transaction has to add."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._bars: Counter[tuple[str, Micros]] = Counter()

    def add(self, group: Group, filed: int, unresolved: int) -> None:
        """Add to a group's counters."""
        known = self._groups.get(group.group_id)
        newest = group if known is None or filed else known
        counts = (known.filed if known else 0) + filed, (known.unresolved if known else 0) + unresolved
        first = known.first_seen if known and known.filed else group.first_seen
        self._groups[group.group_id] = evolve(newest, filed=counts[0], unresolved=counts[1], first_seen=first)
        if filed:
            self._bars[group.group_id, group.last_seen - group.last_seen % HOUR] += filed

    def write(self, link: Link, statements: Statements) -> None:
        """Write them all."""
        for _, group in sorted(self._groups.items()):
            if group.filed:
                link.change(statements.insert(GROUPS) + counted(statements.dialect), GROUPS.row(group))
            elif group.unresolved:
                mark = statements.dialect.mark
                sql = f"UPDATE {_GROUP} SET unresolved = unresolved + {mark} WHERE group_id = {mark}"
                link.change(sql, [group.unresolved, GROUPS.encode("group_id", group.group_id)])
        for (name, hour), filed in sorted(self._bars.items()):
            group_id = GROUPS.encode("group_id", name)
            sql = f"INSERT INTO {TREND} ({BAR}) VALUES ({statements.marks(4)})"
            link.change(sql + grown(statements.dialect), [f"{group_id}:{hour}", group_id, hour, filed])


def counted(dialect: Dialect) -> str:
    """Return what makes an INSERT of a group count in it, if it is there."""
    newer = f"{dialect.given('last_seen')} >= {_GROUP}.last_seen"
    news = {name: f"CASE WHEN {newer} THEN {dialect.given(name)} ELSE {_GROUP}.{name} END" for name in _NEWS}
    added = {name: f"{_GROUP}.{name} + {dialect.given(name)}" for name in ("filed", "unresolved")}
    return dialect.merge("group_id", news | added)


def grown(dialect: Dialect) -> str:
    """Return what makes an INSERT of a bar count in it, if it is there."""
    return dialect.merge("bar", {"filed": f"{TREND}.filed + {dialect.given('filed')}"})


def count_up(link: Link, statements: Statements, limit: int) -> int:
    """Count letters that are uncounted yet, but for those of groups that somebody is busy with."""
    skip = statements.dialect.skip_locked
    order = f" ORDER BY newest LIMIT {int(limit)}{skip}"
    waiting = [UNCOUNTED.read(row) for row in link.rows(statements.select(UNCOUNTED, (), order))]
    groups = sorted({GROUPS.encode("group_id", each.group_id) for each in waiting})
    if not groups:
        return 0
    known = f"SELECT group_id FROM {_GROUP} WHERE group_id IN ({statements.marks(len(groups))})"
    free = link.rows(f"{known} ORDER BY group_id{skip}", groups)
    busy = {row[0] for row in link.rows(known, groups)} - {row[0] for row in free}
    tallies, done = Tallies(), []
    for each in waiting:
        if GROUPS.encode("group_id", each.group_id) not in busy:
            tallies.add(each, each.filed, each.unresolved)
            done.append([UNCOUNTED.encode("newest", each.newest)])
    link.many(statements.delete(UNCOUNTED, ("newest",)), done)
    tallies.write(link, statements)
    return len(done)
