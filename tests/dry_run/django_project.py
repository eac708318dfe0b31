"""A Django project in one file: records a job that fails, and runs it by another body. Prints what came out, as JSON.

python -m tests.dry_run.django_project FOLDER BODY
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import django
from celery import Celery
from django.conf import settings

FOLDER, BODY = sys.argv[1:3]
LATER = dict(pair.split("=", 1) for pair in sys.argv[3:])
os.environ.update({name: LATER.pop(name) for name in ("READS", "VARY", "BUNDLE") if name in LATER})

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{FOLDER}/live.sqlite3"}},
    DATABASE_ROUTERS=["tests.dry_run.rows.models.Router"],
    INSTALLED_APPS=["django_celery_replay", "tests.dry_run.rows"],
    MEDIA_ROOT=f"{FOLDER}/media",
    SECRET_KEY="x",
    CACHES={
        "default": {
            "BACKEND": "django_celery_replay.cache.RecordedCache",
            "LOCATION": f"{FOLDER}/cache",
            "VERSION": 3,
            "OPTIONS": {"of": "django.core.cache.backends.filebased.FileBasedCache", "MAX_ENTRIES": 50},
        },
        "rates": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    },
)
django.setup()

from django.core import mail  # noqa: E402
from django.core.cache import cache  # noqa: E402
from django.core.files.base import ContentFile  # noqa: E402
from django.core.files.storage import default_storage  # noqa: E402
from django.db import connection  # noqa: E402

from celery_replay import current_attempt, step  # noqa: E402
from celery_replay.dry_run.bundle import exported, imported  # noqa: E402
from celery_replay.dry_run.engine import Engine  # noqa: E402
from celery_replay.dry_run.recording import recording_of  # noqa: E402
from celery_replay.dry_run.variation import Variation  # noqa: E402
from celery_replay.runtime import use_store  # noqa: E402
from celery_replay.stores.memory import MemoryStore  # noqa: E402
from tests.dry_run.rows.models import Customer, Order  # noqa: E402

app = Celery("rows", task_cls="django_celery_replay:ReplayTask", broker="memory://", backend="cache+memory://")
app.conf.update(replay_store="memory://", replay_eager="record")


@step(side_effect=True, key="pay")
def pay() -> str:
    return str(_paying[0]())


def pay_by_the_real_database() -> str:
    with sqlite3.connect(f"{FOLDER}/live.sqlite3") as live:
        live.execute("UPDATE rows_customer SET points = 99")
    return "paid"


_paying: list[Callable[[], str]] = [lambda: "paid"]


def publish() -> None:
    Customer.objects.create(name="Bob", code="b")
    cache.set("told", "by the first")
    count.delay()


class Odd:
    pass


def read_caches() -> list[Any]:
    """Read as a task does that decides by what it finds."""
    return [
        cache.get("price"), cache.get("none", "by default"), cache.get_many(["a", "b"]), "flag" in cache,
        cache.get("secret_token"), cache.get("odd") is not None, cache.get_or_set("made", lambda: "anew"),
        cache.get("made"), asyncio.run(cache.aget("price")),
    ]  # fmt: skip


def read_more() -> list[Any]:
    return [cache.get("price"), cache.get("never asked")]


def change_caches() -> list[Any]:
    cache.set("price", 99)
    cache.delete("a")
    return [cache.get("price"), cache.get("a"), cache.incr("b"), cache.add("price", 1), cache.get("b")]


def fail() -> None:
    if os.environ.get("READS"):
        read_caches()
    Customer.objects.filter(pk=1).update(points=3)
    current_attempt().snapshot("half")
    pay()
    Customer.objects.filter(pk=1).update(points=4)
    raise ValueError("then")


def go_on(points: int = 3) -> list[Any]:
    Customer.objects.filter(pk=1).update(points=points)
    current_attempt().snapshot("half")
    Customer.objects.filter(pk=1).update(name="Anna")
    return [pay(), *Customer.objects.values_list("points", flat=True)]


def pay_really() -> list[Any]:
    _paying[0] = pay_by_the_real_database
    return go_on()


def write() -> list[int]:
    Customer.objects.filter(pk=1).update(points=7)
    Customer.objects.create(name="Bob", code="b")
    return list(Customer.objects.order_by("pk").values_list("points", flat=True))


def send_mail() -> int:
    return mail.send_mail("Thanks", "…", "shop@example.org", ["ann@example.org"])


def keep() -> list[Any]:
    cache.set("a", 1)
    return [cache.get("a"), default_storage.save("label.txt", ContentFile(b"x")), default_storage.exists("label.txt")]


def ask_of_orders() -> int:
    return Order.objects.count()


bodies: dict[str, Callable[[], Any]] = {
    "write": write,
    "nothing": lambda: None,
    "fail": fail,
    "publish": publish,
    "read_caches": read_caches,
    "read_more": read_more,
    "change_caches": change_caches,
    "go_on": go_on,
    "go_on_otherwise": lambda: go_on(5),
    "pay_really": pay_really,
    "begun_with": lambda: list(Customer.objects.values_list("points", flat=True)),
    "send_mail": send_mail,
    "keep": keep,
    "ask_of_orders": ask_of_orders,
}
body: list[Callable[[], Any]] = [fail]


@app.task(name="job", state={"customers": Customer.objects.all})
def job() -> Any:
    return body[0]()


@app.task(name="count")
def count() -> list[Any]:
    Customer.objects.create(name="Cid", code="c")
    return [Customer.objects.count(), cache.get("told")]


def rows() -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        return cursor.execute("SELECT id, name, points FROM rows_customer ORDER BY id").fetchall()


with connection.schema_editor() as editor:
    for model in (Customer, Order):
        editor.create_model(model)
Customer.objects.create(pk=1, name="Ann", code="a")
Order.objects.create()

if os.environ.get("READS"):
    values = {"price": {"eur": Decimal("1.50"), "of": (1, 2)}, "a": 1, "b": 2, "flag": 1}
    cache.set_many({**values, "secret_token": "hunter2", "odd": Odd()})
store = MemoryStore()
use_store(app, store)
assert job.apply().failed()
(known,) = store.find_jobs(limit=10)
letter = store.letter(known.submission)
assert letter is not None
body[0] = bodies[BODY]
os.environ.update(LATER)
TOLD = ("result", "state", "began_as_then", "surroundings", "at", "moments", "cache_unknown", "followed")
before = rows()
caches = sorted(Path(FOLDER, "cache").glob("*")), cache.get("price") if BODY != "keep" else None
recording = recording_of(store, known, letter.message)
if os.environ.get("BUNDLE"):
    recording, _ = imported(exported(recording))
with Engine(app) as engine:
    ran = engine.run(recording, Variation.of_data(json.loads(os.environ.get("VARY", "{}"))))
assert (sorted(Path(FOLDER, "cache").glob("*")), cache.get("price") if BODY != "keep" else None) == caches
found = ran.found or {}
sys.stdout.write(
    json.dumps(
        {
            "ends": str(ran.comparison.ends),
            "said": ran.comparison.said,
            "blocked": sorted({one.what for one in ran.report.blocked}),
            "unchanged": rows() == before,
            "cache": list(ran.comparison.cache.then),
            "kept_secret": "hunter2" in exported(recording),
            "error": str(ran.report.error),
            **{
                name: found.get(name)
                for name in (
                    "result",
                    "state",
                    "began_as_then",
                    "surroundings",
                    "at",
                    "moments",
                    "cache_unknown",
                    "followed",
                )
            },
        }
    )
)
