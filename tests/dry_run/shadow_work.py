"""Bodies that do on PostgreSQL what they are meant to."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db import IntegrityError, OperationalError, connection, connections, transaction
from django.db.backends.postgresql.psycopg_any import NumericRange
from django.db.models import F, Window
from django.db.models.functions import RowNumber

from tests.dry_run.stock.models import Booked, Item, Move, Old, Price

BODIES: dict[str, Callable[[], Any]] = {}


def body(function: Callable[[], Any]) -> Callable[[], Any]:
    BODIES[function.__name__] = function
    return function


def fail() -> None:
    raise ValueError("then")


def asked(sql: str, *params: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return [list(row) for row in cursor.fetchall()] if cursor.description else []


@body
def write() -> Any:
    Item.objects.filter(name="nut").update(count=F("count") + 1)
    made = Item.objects.create(name="washer")
    Move.objects.create(item=made, by=2)
    twice = asked("SELECT twice FROM stock_move")
    return [made.pk, twice, Old.objects.create(name="y").pk, asked("SELECT nextval('stock_old_id_seq')")]


@body
def search() -> Any:
    return [
        Item.objects.filter(tags__contains=["a"]).count(),
        Item.objects.filter(sizes__contains=NumericRange(2, 3)).count(),
        Item.objects.filter(data__a__b__0=1).count(),
        Item.objects.filter(labels__k="v").count(),
        str(Item.objects.get(name="nut").price),
        [*Item.objects.order_by("count").distinct("count").values_list("name", flat=True)],
        [*Item.objects.annotate(n=Window(RowNumber(), order_by="-count")).order_by("n").values_list("n", flat=True)],
        Item.objects.aggregate(found=ArrayAgg("name", ordering="name"))["found"],
    ]


@body
def own_sql() -> Any:
    return [
        asked(
            "INSERT INTO stock_item (name, count, tags, grid, data, labels, price) VALUES ('nut', 1, '{}', '{}', '{}',"
            " '', 0) ON CONFLICT (name) DO UPDATE SET count = stock_item.count + 10 RETURNING id, count"
        ),
        asked("SELECT data #>> '{a,b}' FROM stock_item WHERE data @> '{\"a\": {}}'"),
        asked("WITH gone AS (DELETE FROM stock_item WHERE name = 'bolt' RETURNING count) SELECT * FROM gone"),
        asked("SELECT string_agg(n::text, ',') FROM generate_series(1, %s) n", 3),
    ]


@body
def transactions() -> Any:
    called = []
    with transaction.atomic():
        transaction.on_commit(lambda: called.append("outer"))
        Item.objects.filter(name="nut").update(count=10)
        try:
            with transaction.atomic():
                transaction.on_commit(lambda: called.append("inner"))
                Item.objects.filter(name="nut").update(count=20)
                raise KeyError
        except KeyError:
            pass
    try:
        with transaction.atomic():
            transaction.on_commit(lambda: called.append("undone"))
            Item.objects.filter(name="nut").update(count=30)
            raise KeyError
    except KeyError:
        pass
    return [Item.objects.get(name="nut").count, called]


@body
def errors_of_statements() -> Any:
    Item.objects.filter(name="nut").update(count=4)
    refused = []
    for values in ({"name": "nut"}, {"name": "odd", "count": -1}):
        try:
            Item.objects.create(**values)
        except IntegrityError as error:
            refused.append(type(error.__cause__).__name__)
    try:
        with transaction.atomic():
            Item.objects.create(name="new")
            Item.objects.create(name="nut")
    except IntegrityError as error:
        refused.append(type(error.__cause__).__name__)
    return [refused, Item.objects.get(name="nut").count, Item.objects.count()]


@body
def deferred_constraints() -> Any:
    try:
        with transaction.atomic():
            Booked.objects.create(days=NumericRange(2, 4))
    except IntegrityError as error:
        return [type(error.__cause__).__name__, Booked.objects.count()]
    return "committed"


@body
def cursors_on_the_server() -> Any:
    Item.objects.bulk_create(Item(name=f"n{number}") for number in range(300))
    names = []
    for item in Item.objects.order_by("pk").iterator(chunk_size=50):
        Item.objects.filter(pk=item.pk).update(count=8)
        names.append(item.name)
    with transaction.atomic():
        locked = sum(1 for _ in Item.objects.select_for_update().iterator(chunk_size=100))
    return [len(names), locked, Item.objects.filter(count=8).count()]


@body
def a_thread() -> Any:
    def write() -> None:
        Item.objects.filter(name="nut").update(count=6)
        connections.close_all()

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    return Item.objects.get(name="nut").count


@body
def a_second_alias() -> Any:
    with transaction.atomic(), transaction.atomic(using="again"):
        Item.objects.filter(name="nut").update(count=6)
        return Item.objects.using("again").get(name="nut").count


@body
def read_live() -> Any:
    return Price.objects.get().amount


@body
def connections_closed() -> Any:
    Item.objects.filter(name="nut").update(count=6)
    connection.close()
    return Item.objects.get(name="nut").count


@body
def locks_of_its_own() -> Any:
    with transaction.atomic():
        asked("LOCK TABLE stock_item IN EXCLUSIVE MODE")
        return [item.count for item in Item.objects.select_for_update().order_by("pk")]


@body
def copies() -> Any:
    with connection.cursor() as cursor:
        with cursor.copy("COPY stock_old (name) FROM STDIN") as copy:
            copy.write_row(["z"])
        with cursor.copy("COPY (SELECT name FROM stock_old ORDER BY id) TO STDOUT") as copy:
            return [row[0] for row in copy.rows()]


@body
def database_error() -> Any:
    return asked("SELECT 1 / 0")


@body
def notices() -> Any:
    asked("NOTIFY escaped, 'x'")
    asked("SELECT pg_notify(%s, %s)", "escaped", "y")
    return "told nobody"


@body
def a_thread_in_the_way() -> Any:
    caught = []

    def write() -> None:
        try:
            Item.objects.filter(name="nut").update(count=6)
        except OperationalError as error:
            caught.append(str(error))

    with transaction.atomic():
        Item.objects.filter(name="nut").update(count=5)
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    return [Item.objects.get(name="nut").count, caught]


@body
def called_away() -> Any:
    Item.objects.filter(name="nut").update(count=5)
    signal.signal(signal.SIGALRM, _raise)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        asked("SELECT pg_sleep(1)")
    except TimeoutError:
        return Item.objects.get(name="nut").count
    return "not called away"


def _raise(*_: object) -> None:
    raise TimeoutError


@body
def rows_as_they_come() -> Any:
    found = []
    for (number,) in connection.connection.cursor().stream("SELECT generate_series(1, 3)"):
        found.append(number)
    return [found, Item.objects.count()]
