"""Tables, indexes and migrations."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from datetime import datetime, timezone
from typing import Any

import pytest
from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import connections, models

from celery_replay import records
from celery_replay.clock import SECOND, as_datetime
from django_celery_replay.fields import MicrosecondsField
from django_celery_replay.models import DeadLetter, ProcessedJob
from django_celery_replay.store import DjangoStore
from tests.django_store.builders import ask

TABLES: list[tuple[type, str]] = [
    (records.Job, "ProcessedJob"),
    (records.Row, "ParkedJob"),
    (records.Letter, "DeadLetter"),
    (records.AttemptRecord, "Attempt"),
    (records.StepRecord, "StepRecord"),
    (records.Chunk, "TraceChunk"),
    (records.Group, "LetterGroup"),
    (records.Group, "UncountedLetter"),
    (records.HistoryEntry, "HistoryEntry"),
]
DERIVED = {"reap_at", "step_id", "chunk_id"}


def model(name: str) -> type[models.Model]:
    return apps.get_model("django_celery_replay", name)


@pytest.mark.parametrize(("record", "name"), TABLES)
def test_a_table_has_its_records_fields(record: Any, name: str) -> None:
    columns = {field.attname for field in model(name)._meta.concrete_fields}
    assert columns - DERIVED == {field.name for field in fields(record)} - {"blobs"}


@pytest.mark.parametrize("auto_field", ["AutoField", "BigAutoField"])
@pytest.mark.parametrize("user_model", ["auth.User", "host.Person"])
def test_a_host_project_needs_no_migration_of_its_own(auto_field: str, user_model: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    command = [sys.executable, "-m", "tests.django_store.host", auto_field, user_model]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["No changes detected in app 'django_celery_replay'", "200"]


def test_every_index_has_a_name_and_no_double() -> None:
    for each in apps.get_app_config("django_celery_replay").get_models():
        indexed = [tuple(index.fields) for index in each._meta.indexes]
        assert all(index.name.startswith("replay_") for index in each._meta.indexes)
        single = {(f.attname,) for f in each._meta.concrete_fields if f.unique or f.db_index}
        assert not single & set(indexed)
        assert not any(a != b and b[: len(a)] == a for a in indexed for b in indexed)


def test_postgresql_makes_no_index_of_its_own(postgres_store: DjangoStore) -> None:
    found = postgres_store._run(
        lambda link: link.rows(
            "SELECT indexname FROM pg_indexes WHERE right(indexname, 5) = '_like'"
            " AND starts_with(tablename, 'django_celery_replay')"
        )
    )
    assert found == []


QUERIES: dict[str, str] = {
    "replay_job_reap": "SELECT * FROM {job} WHERE reap_at <= 5 ORDER BY reap_at LIMIT 100",
    "replay_job_keep": "SELECT * FROM {job} WHERE letter = FALSE AND keep_until <= 5 ORDER BY keep_until LIMIT 500",
    "replay_job_task": "SELECT * FROM {job} WHERE task_id = 'x' ORDER BY started_at DESC, submission DESC LIMIT 100",
    "replay_job_key": "SELECT * FROM {job} WHERE key = 'x' ORDER BY started_at DESC, submission DESC LIMIT 100",
    "replay_job_trace": "SELECT * FROM {job} WHERE trace_id = 'x' ORDER BY started_at DESC, submission DESC LIMIT 100",
    "replay_job_newest": (
        "SELECT * FROM {job} WHERE started_at <= 5 AND (started_at < 5 OR submission < 'x') AND status = 'failed'"
        " ORDER BY started_at DESC, submission DESC LIMIT 100"
    ),
    "replay_attempt_job": "SELECT * FROM {attempt} WHERE submission = 'x' ORDER BY started_at",
    "replay_step_scope": "SELECT * FROM {step} WHERE scope = 'x'",
    "replay_parked_behind": (
        "SELECT * FROM {parked} WHERE subject = 'x' AND status IN ('parked') ORDER BY parked_at LIMIT 1"
    ),
    "replay_parked_due": "SELECT * FROM {parked} WHERE wake_at <= 5 ORDER BY wake_at, parked_at LIMIT 100",
    "replay_parked_age": "SELECT * FROM {parked} ORDER BY parked_at LIMIT 100",
    "replay_chunk_trace": "SELECT * FROM {chunk} WHERE trace_id = 'x'",
    "replay_use_blob": "SELECT 1 FROM {use} WHERE reference = 'x'",
    "replay_use_trace": "SELECT reference FROM {use} WHERE trace_id IN ('x', 'y')",
    "replay_letter_newest": "SELECT * FROM {letter} ORDER BY last_failed DESC, submission DESC LIMIT 100",
    "replay_letter_state": (
        "SELECT * FROM {letter} WHERE state = 'open' ORDER BY last_failed DESC, submission DESC LIMIT 100"
    ),
    "replay_letter_task": (
        "SELECT * FROM {letter} WHERE operation = 'x' ORDER BY last_failed DESC, submission DESC LIMIT 100"
    ),
    "replay_letter_group": (
        "SELECT * FROM {letter} WHERE group_id = 'x' ORDER BY last_failed DESC, submission DESC LIMIT 100"
    ),
    **{
        f"replay_letter_{name}": (
            f"SELECT * FROM {{letter}} WHERE {column} = 'x' ORDER BY last_failed DESC, submission DESC LIMIT 100"
        )
        for name, column in {
            "reason": "reason",
            "effect": "effect",
            "operation": "operation_id",
            "assignee": "assignee",
        }.items()
    },
    "replay_group_newest": (
        "SELECT * FROM {group} WHERE unresolved > 0 ORDER BY last_seen DESC, group_id DESC LIMIT 100"
    ),
    "replay_trend_group": "SELECT * FROM {trend} WHERE group_id IN ('x', 'y') AND hour >= 5",
    "replay_history_job": "SELECT * FROM {history} WHERE submission = 'x' ORDER BY at DESC LIMIT 100",
    "replay_history_notes": (
        "SELECT * FROM {history} WHERE group_id = 'x' AND submission = '' ORDER BY at DESC LIMIT 100"
    ),
    "replay_history_operation": "SELECT * FROM {history} WHERE operation_id = 'x' ORDER BY at DESC LIMIT 100",
    "replay_lease_until": "SELECT * FROM {lease} WHERE until IS NOT NULL ORDER BY until DESC LIMIT 100",
    "replay_lease_keep": "SELECT resource FROM {lease} WHERE keep_until <= 5 ORDER BY keep_until LIMIT 500",
    "replay_lease_job": "SELECT * FROM {lease} WHERE submission IN ('x') ORDER BY resource FOR UPDATE",
    "replay_holding_resource": "SELECT * FROM {holding} WHERE resource = 'x' ORDER BY \"grant\" DESC",
    "replay_holding_task": "SELECT * FROM {holding} WHERE operation = 'x' ORDER BY ended_at DESC LIMIT 1000",
    "replay_holding_job": "DELETE FROM {holding} WHERE submission IN ('x')",
    "replay_waiter_line": "SELECT * FROM {waiter} WHERE resource = 'x' ORDER BY since, submission LIMIT 3",
    "replay_waiter_job": "DELETE FROM {waiter} WHERE submission = 'x'",
    "replay_blob_placed": "SELECT reference, body FROM {blob} WHERE placed IS NULL LIMIT 100",
    "replay_placed_due": "SELECT * FROM {placed} WHERE look_at <= 5 ORDER BY look_at LIMIT 100",
    "replay_operation_newest": "SELECT * FROM {operation} ORDER BY began_at DESC, operation_id DESC LIMIT 100",
    "replay_operation_active": (
        "SELECT * FROM {operation} WHERE active = TRUE ORDER BY began_at, operation_id LIMIT 100"
    ),
    "replay_operation_keep": (
        "SELECT operation_id FROM {operation} WHERE keep_until <= 5 ORDER BY keep_until LIMIT 500"
    ),
    "replay_portion_operation": "DELETE FROM {portion} WHERE operation_id IN ('x')",
    "replay_marker_age": "SELECT * FROM {marker} WHERE marked_at < 5 ORDER BY marked_at LIMIT 100",
}
FEW = ("replay_job_task", "replay_job_trace", "replay_lease_job")
NAMES = {
    "job": "processedjob",
    "attempt": "attempt",
    "step": "steprecord",
    "parked": "parkedjob",
    "chunk": "tracechunk",
    "use": "blobuse",
    "blob": "blob",
    "placed": "placedblob",
    "letter": "deadletter",
    "group": "lettergroup",
    "trend": "lettertrend",
    "history": "historyentry",
    "marker": "marker",
    "lease": "resourcelease",
    "holding": "leaseholding",
    "waiter": "leasewaiter",
    "operation": "replayoperation",
    "portion": "operationportion",
}


def test_every_index_is_asked_for() -> None:
    models_ = apps.get_app_config("django_celery_replay").get_models()
    assert {index.name for each in models_ for index in each._meta.indexes} == set(QUERIES)


@pytest.mark.parametrize("index", QUERIES)
def test_postgresql_uses_the_index(postgres_store: DjangoStore, index: str) -> None:
    tables = {short: f"django_celery_replay_{name}" for short, name in NAMES.items()}

    def plan(link: Any) -> str:
        link.cursor.execute("BEGIN")
        # The tables are empty here: the question is whether the index fits, not whether it pays yet.
        link.cursor.execute("SET LOCAL enable_seqscan = off")
        # Of one task or trace there are a few jobs, to be sorted.
        link.cursor.execute(f"SET LOCAL enable_sort = {'on' if index in FEW else 'off'}")
        rows = link.rows("EXPLAIN " + QUERIES[index].format(**tables))
        link.cursor.execute("ROLLBACK")
        return "\n".join(row[0] for row in rows)

    assert index in postgres_store._run(plan)


def test_the_orm_reads_times_as_datetimes(store: DjangoStore) -> None:
    job = store.open(ask("s")).facts.job
    assert job is not None
    found = ProcessedJob.objects.using(store.alias).get(submission="s")
    assert found.started_at == as_datetime(job.started_at)
    assert found.closed_at is None
    assert ProcessedJob.objects.using(store.alias).filter(started_at__lte=datetime.now(timezone.utc)).exists()
    assert not ProcessedJob.objects.using(store.alias).filter(started_at__gt=job.started_at).exists()
    connections[store.alias].close()


def test_a_time_survives_every_conversion() -> None:
    field = MicrosecondsField()
    for value in (0, 1, -1, 1_800_000_000 * SECOND + 999_999, 253_402_300_799_999_999):
        shown = field.to_python(value)
        assert shown is not None
        assert field.get_prep_value(shown) == value
        assert field.get_prep_value(shown.isoformat()) == value
    assert field.get_prep_value(None) is None
    with pytest.raises(ValidationError):
        field.to_python("soon")


def test_records_can_be_validated_and_dumped() -> None:
    letter = DeadLetter(submission="s", first_seen=1, last_failed=2)
    letter.clean_fields(exclude=[f.attname for f in letter._meta.fields if f.attname != "first_seen"])
    assert DeadLetter._meta.get_field("last_failed").value_to_string(letter) == "1970-01-01T00:00:00.000002+00:00"
    assert DeadLetter._meta.get_field("last_failed").formfield() is not None
