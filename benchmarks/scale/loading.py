"""Fills a database: rows as the store writes them, in bulk, without the indexes, in several processes."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import accumulate
from typing import Any

from django.apps import apps
from django.db import connection, models, transaction

from celery_replay.clock import Micros
from celery_replay.dead_letters import group_of
from celery_replay.records import AttemptRecord, Chunk, Group, HistoryEntry, Job, Letter, StepRecord, evolve
from django_celery_replay.models import LetterTrend
from django_celery_replay.tables import ATTEMPTS, CHUNKS, GROUPS, HISTORY, JOBS, LETTERS, STEPS, Table

from . import project
from .cases import case
from .population import HOUR, Population

TABLES: dict[type, Table[Any]] = {
    Job: JOBS, Letter: LETTERS, AttemptRecord: ATTEMPTS, Chunk: CHUNKS, StepRecord: STEPS, HistoryEntry: HISTORY
}  # fmt: skip
TREND = ("bar", "group_id", "hour", "filed")
BATCH_HOURS = 12


@dataclass(kw_only=True)
class Counted:
    """What a part of the letters adds to its groups."""

    groups: dict[str, Group] = field(default_factory=dict)
    bars: dict[tuple[str, Micros], int] = field(default_factory=dict)
    rows: int = 0

    def letter(self, letter: Letter) -> None:
        """Count a letter; they come in the order of time."""
        self.add(evolve(group_of(letter), filed=1, unresolved=int(letter.state.unresolved)))
        bar = letter.group_id, letter.last_failed - letter.last_failed % HOUR
        self.bars[bar] = self.bars.get(bar, 0) + 1

    def add(self, group: Group) -> None:
        """Add a group's later counts."""
        known = self.groups.get(group.group_id)
        if known is not None:
            group = evolve(
                group,
                first_seen=known.first_seen,
                filed=known.filed + group.filed,
                unresolved=known.unresolved + group.unresolved,
            )
        self.groups[group.group_id] = group


def load(population: Population, processes: int) -> int:
    """Load them all; return how many rows were written."""
    counts = population.counts()
    starts = [0, *accumulate(counts)]
    batches = [
        [(hour, starts[hour], counts[hour]) for hour in range(begin, min(begin + BATCH_HOURS, len(counts)))]
        for begin in range(0, len(counts), BATCH_HOURS)
    ]
    drop_indexes()
    total = Counted()
    for part in _parts(population, batches, processes):
        total.rows += part.rows
        for group in part.groups.values():
            total.add(group)
    _write(GROUPS.name, GROUPS.columns, [GROUPS.row(group) for group in total.groups.values()])
    make_indexes()
    tidy()
    return total.rows + len(total.groups)


def _parts(population: Population, batches: list[Any], processes: int) -> Iterator[Counted]:
    """Load batch by batch, and return them in their order."""
    work = partial(_load, population)
    if processes == 1:
        yield from map(work, batches)
        return
    context = multiprocessing.get_context("spawn")
    url = os.environ["REPLAY_DJANGO_DATABASE_URL"]
    with ProcessPoolExecutor(processes, context, project.setup, (url,)) as pool:
        yield from pool.map(work, batches)


@cache
def _one(population: Population) -> Population:
    """Return the copy that this process has of a population, which knows its causes by now."""
    return population


def _load(population: Population, hours: Sequence[tuple[int, int, int]]) -> Counted:
    population = _one(population)
    counted = Counted()
    rows: dict[type, list[Any]] = {kind: [] for kind in TABLES}
    for hour, first, count in hours:
        chance = random.Random(first)
        for number, (at, cause) in enumerate(population.failures(hour, count), first):
            for record in case(population, number, at, cause, chance):
                kind = type(record)
                rows[kind].append(TABLES[kind].row(record))
                if kind is Letter:
                    counted.letter(record)
    for kind, table in TABLES.items():
        _write(table.name, table.columns, rows[kind])
    bars = [(f"{group}:{hour}", group, hour, filed) for (group, hour), filed in counted.bars.items()]
    _write(LetterTrend._meta.db_table, TREND, bars)
    counted.rows = sum(map(len, rows.values())) + len(bars)
    counted.bars.clear()
    return counted


def _write(table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    names = ", ".join(map(connection.ops.quote_name, columns))
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            return
        marks = ", ".join(["%s"] * len(columns))
        cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)


def _indexes() -> Iterator[tuple[type[models.Model], models.Index]]:
    for model in apps.get_app_config("django_celery_replay").get_models():
        for index in model._meta.indexes:
            yield model, index


def drop_indexes() -> None:
    """Drop what would be kept in order row by row."""
    with connection.schema_editor() as editor:
        for model, index in _indexes():
            editor.remove_index(model, index)


def make_indexes() -> None:
    """Make the indexes as the migrations do."""
    with connection.schema_editor() as editor:
        if connection.vendor == "postgresql":
            editor.execute("SET LOCAL maintenance_work_mem = '512MB'")
        for model, index in _indexes():
            editor.add_index(model, index)


def make_trigrams() -> None:
    """Make the index for parts of an error's text that the documentation tells of."""
    columns = "error_type gin_trgm_ops, error_message gin_trgm_ops"
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        cursor.execute(f"CREATE INDEX IF NOT EXISTS replay_letter_error ON {LETTERS.name} USING gin ({columns})")


def tidy() -> None:
    """Let the database look at what it has, as it does by itself in time."""
    tables = [model._meta.db_table for model in apps.get_app_config("django_celery_replay").get_models()]
    with connection.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute(f"ANALYZE TABLE {', '.join(tables)}")
            cursor.fetchall()
        else:
            cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


def sizes() -> dict[str, int]:
    """Return each table's bytes on disk with indexes, where the database tells."""
    if connection.vendor != "postgresql":
        return {}
    found = {}
    with connection.cursor() as cursor:
        for model in apps.get_app_config("django_celery_replay").get_models():
            cursor.execute("SELECT pg_total_relation_size(%s)", [model._meta.db_table])
            found[model._meta.db_table] = cursor.fetchone()[0]
    return found
