"""A Django project on PostgreSQL: records a job that fails, and runs it by other bodies on a shadow of its database.

python -m tests.dry_run.shadow_project DATABASE-URL ROLE GROUP [BODY …]

Prints what came out of each, as JSON. The live database, and what a second connection may do there, is looked at after
each run.
"""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import django
import psycopg
from celery import Celery
from django.conf import settings

from tests.support.database_urls import django_database

URL, ROLE, GROUP = sys.argv[1:4]
LIVE = django_database(URL)
settings.configure(
    DATABASES={"default": LIVE, "again": {**LIVE}, "other": {**LIVE, "NAME": "postgres"}},
    INSTALLED_APPS=["django.contrib.postgres", "django_celery_replay", "tests.dry_run.stock"],
    SECRET_KEY="x",
    USE_TZ=True,
)
django.setup()

from django.db import connection  # noqa: E402
from django.db.backends.postgresql.psycopg_any import DateRange, NumericRange  # noqa: E402

from celery_replay.dry_run.engine import Engine  # noqa: E402
from celery_replay.dry_run.recording import recording_of  # noqa: E402
from celery_replay.exceptions import ReplayError  # noqa: E402
from celery_replay.runtime import use_store  # noqa: E402
from celery_replay.stores.memory import MemoryStore  # noqa: E402
from tests.dry_run import shadow_attempts, shadow_work  # noqa: E402
from tests.dry_run.stock.models import MODELS, Booked, Item, Move, Old, Price  # noqa: E402

app = Celery("stock", task_cls="django_celery_replay:ReplayTask", broker="memory://", backend="cache+memory://")
shadow = json.loads(os.environ.get("SHADOW", "{}"))
app.conf.update(
    replay_store="memory://",
    replay_eager="record",
    replay_sandbox_database={"default": {"USER": ROLE, **shadow}},
)
bodies = shadow_work.BODIES if GROUP == "work" else shadow_attempts.BODIES
body: list[Any] = [shadow_work.fail]


@app.task(name="job", state={"items": Item.objects.all, "moves": Move.objects.all, "booked": Booked.objects.all,
                             "old": Old.objects.all})  # fmt: skip
def job() -> Any:
    return body[0]()


def make_tables() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE stock_old (id serial PRIMARY KEY, name varchar(20) NOT NULL)")
        cursor.execute("CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
    with connection.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE stock_booked ALTER COLUMN id SET GENERATED ALWAYS")
        cursor.execute("ALTER TABLE stock_move ADD COLUMN twice int GENERATED ALWAYS AS (by * 2) STORED")
        cursor.execute("CREATE TRIGGER on_item BEFORE UPDATE ON stock_item FOR EACH ROW EXECUTE FUNCTION told()")
    Item.objects.create(
        pk=7, name="nut", count=3, tags=["a", 'b"c'], grid=[[1, 2], [3, 4]], sizes=NumericRange(1, 5),
        sold=DateRange(date(2026, 1, 1), None), data={"a": {"b": [1, None]}}, labels={"k": "v", "n": None},
        price=Decimal("12345678901234567.123456789012"), seen=datetime(2026, 3, 1, 12, tzinfo=timezone.utc),
    )  # fmt: skip
    Item.objects.create(pk=9, name="bolt", count=5, tags=["a"])
    Booked.objects.create(days=NumericRange(1, 3))
    Price.objects.create(amount=40)
    Old.objects.create(name="x")


def outside() -> Any:
    """Look at all that is live: rows, sequences, objects, other sessions' locks."""
    tables = [model._meta.db_table for model in (*MODELS, Old)]
    with psycopg.connect(URL, autocommit=True) as other:
        asked = [
            *(f"SELECT * FROM {table} ORDER BY 1" for table in tables),
            "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = 'public' ORDER BY 1",
            "SELECT relname, relkind::text FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
            "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
            "SELECT rolname FROM pg_roles WHERE rolname LIKE 'escaped%'",
            "SELECT count(*) FROM pg_largeobject_metadata",
            "SELECT count(*) FROM pg_prepared_xacts",
        ]
        return [other.execute(sql).fetchall() for sql in asked]


def left_behind() -> int:
    """Count sessions of dry runs that are still there a while after their end."""
    with psycopg.connect(URL, autocommit=True) as other:
        for _ in range(40):
            asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'celery-replay dry run'"
            ((count,),) = other.execute(asked + " AND datname = current_database()").fetchall()
            if not count:
                break
            time.sleep(0.1)
        return int(count)


make_tables()
store = MemoryStore()
use_store(app, store)
assert job.apply().failed()
(known,) = store.find_jobs(limit=10)
letter = store.letter(known.submission)
assert letter is not None
recording = recording_of(store, known, letter.message)
connection.close()
found: dict[str, Any] = {}
try:
    with (
        shadow_attempts.watched(URL) as watch,
        Engine(app, timeout_s=float(os.environ.get("SECONDS", "20")), require_kernel="STRICT" in os.environ) as engine,
    ):
        before = outside()
        for name in sys.argv[4:] or bodies:
            body[0] = {**bodies, **shadow_attempts.SLOW}[name]
            ran = engine.run(recording)
            told, after = ran.found or {}, outside()
            found[name] = {
                "ends": str(ran.comparison.ends),
                "said": ran.comparison.said,
                "sandbox": ran.sandbox,
                "blocked": [[one.what, one.detail, one.step] for one in ran.report.blocked],
                "unchanged": after == before,
                "heard": watch(),
                "left_behind": left_behind(),
                "output": ran.report.stderr.text[-3000:] + str(ran.report.error),
                **{key: told.get(key) for key in ("result", "failure", "state", "began_as_then", "surroundings")},
            }
            before = after
except ReplayError as error:
    found = {"refused": str(error)}
sys.stdout.write(json.dumps(found))
