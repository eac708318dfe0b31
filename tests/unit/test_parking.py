"""What goes through the parking lot comes out as it went in: judged by what a worker receives."""

from __future__ import annotations

import base64
import uuid
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from celery import Celery, chain, chord, group
from celery.app.task import Context
from kombu import Connection, Exchange, Queue

from celery_replay import ReplayTask, parking
from celery_replay.clock import SECOND
from celery_replay.records import Row
from celery_replay.request import ReplayRequest
from celery_replay.serialization import unpack
from celery_replay.states import Reason, RowStatus

OF_THE_WAY = {"delivery_tag", "body_encoding", "delivery_info"}
"""Properties that a transport makes for each message."""


@pytest.fixture(params=["memory", "filesystem"])
def app(request, tmp_path):
    options = {"polling_interval": 0.001}
    if request.param == "filesystem":
        for name in ("in", "processed", "control"):
            (tmp_path / name).mkdir()
        options.update(
            data_folder_in=tmp_path / "in", data_folder_out=tmp_path / "in", control_folder=tmp_path / "control"
        )
    name = f"q-{uuid.uuid4().hex}"
    with Celery("shop", task_cls=ReplayTask, set_as_current=False, broker=f"{request.param}://") as app:
        app.conf.update(
            broker_transport_options=options,
            task_default_queue=name,
            task_queues=[Queue(name, Exchange(name, type="direct"), routing_key=name, max_priority=9)],
            result_backend="cache+memory://",
            accept_content=["json", "pickle", "yaml"],
            replay_store="memory://",
        )
        app.task(echo, name="shop.pay", shared=False)
        app.task(echo, name="shop.ship", shared=False)
        yield app


def echo(*args, **kwargs):
    return args, kwargs


def receive(app):
    """Take one message off the queue, as a worker does: its own view of it, and what a task would see."""
    with app.connection_for_read() as connection:
        queue = app.amqp.queues[app.conf.task_default_queue].bind(connection.default_channel)
        message = queue.get(no_ack=True, accept=["json", "pickle", "yaml"])
        assert message is not None, "the queue is empty"
        raw = {
            "headers": dict(message.headers),
            "body": message.body,
            "content_type": message.content_type,
            "content_encoding": message.content_encoding,
            "properties": {key: value for key, value in message.properties.items() if key not in OF_THE_WAY},
            "route": {key: message.delivery_info.get(key) for key in ("exchange", "routing_key")},
        }
        args, kwargs, embed = message.decode()
        request = ReplayRequest(message, app=app, hostname="w@host")
        context = Context({**request.request_dict, **embed})
        return raw, context, (args, kwargs, embed)


def through_the_lot(app, context, decoded, delay=0.0):
    args, kwargs, _ = decoded
    kept = parking.keep(context, args, kwargs, "json", {})
    parking.publish(app, kept, delay)
    return receive(app)


def normal(raw):
    """Make two messages comparable: base64 bodies of the same content, and headers without those that are None."""
    headers = {key: value for key, value in raw["headers"].items() if value is not None and key != "eta"}
    return {**raw, "headers": headers}


CALLS = {
    "plain": {},
    "custom headers": {"headers": {"tenant": "x", "n": 5, "deep": {"a": [1]}}},
    "nested headers": {"headers": {"tenant": "x", "headers": {"tenant": "x", "trace": "y"}}},
    "priority": {"priority": 7},
    "pickle": {"serializer": "pickle"},
    "yaml": {"serializer": "yaml"},
    "expires": {"expires": 3600},
    "limits": {"time_limit": 60, "soft_time_limit": 30},
    "shadow": {"shadow": "pay (shadow)"},
    "ignored result": {"ignore_result": True},
    "group": {"group_id": "g1", "group_index": 2},
    "correlation": {"correlation_id": "c-1", "reply_to": "answers"},
    "message properties": {"message_id": "m-1", "app_id": "shop", "type": "order"},
    "an option that Celery does not know": {"shop_option": "x"},
    "time to live": {"expiration": 60},
    "compressed": {"compression": "zlib"},
    "stamps": {"stamped_headers": ["tenant"], "tenant": ["x"]},
    "transient": {"delivery_mode": "transient"},
    "retry": {"retries": 3},
    "replacement": {"replaced_task_nesting": 2},
}


@pytest.mark.parametrize("options", CALLS.values(), ids=CALLS)
def test_a_republished_message_equals_the_original(app, options):
    if options.get("serializer") == "yaml":
        pytest.importorskip("yaml")
    app.tasks["shop.pay"].apply_async((1, "zwei"), {"dry": [None, True]}, **options)
    first, context, decoded = receive(app)

    second, again, copy = through_the_lot(app, context, decoded)

    assert copy == decoded
    assert normal(second)["headers"] == normal(first)["headers"]
    assert normal(second) == normal(first)
    assert without_reception(again) == without_reception(context)


def without_reception(context):
    own = {"replay_received_at", "eta", "properties", "headers"}
    return {key: value for key, value in vars(context).items() if key not in own}


def test_it_comes_out_the_same_any_number_of_times(app):
    app.tasks["shop.pay"].apply_async((1,), headers={"tenant": "x"}, priority=3, link=app.tasks["shop.ship"].s())
    first, context, decoded = receive(app)
    raw = first
    for _ in range(5):
        raw, context, decoded = through_the_lot(app, context, decoded)

    assert normal(raw) == normal(first)


def pay(app, *args):
    return app.tasks["shop.pay"].s(*args)


CANVASES = {
    "link": lambda app: pay(app, 1).apply_async(link=[pay(app, 2), pay(app, 3)]),
    "errback": lambda app: pay(app, 1).apply_async(link_error=pay(app, 2)),
    "chain": lambda app: chain(pay(app, 1), pay(app, 2), pay(app, 3)).apply_async(),
    "chain in chain": lambda app: chain(pay(app, 1), group(pay(app, 2), pay(app, 3)), pay(app, 4)).apply_async(),
}


@pytest.mark.parametrize("publish", CANVASES.values(), ids=CANVASES)
def test_what_hangs_on_a_message_goes_with_it(app, publish):
    publish(app)
    first, context, decoded = receive(app)

    second, again, copy = through_the_lot(app, context, decoded)

    assert any(decoded[2].values())
    assert copy == decoded
    assert normal(second) == normal(first)
    assert (again.callbacks, again.errbacks, again.chain) == (context.callbacks, context.errbacks, context.chain)


def test_a_chords_member_keeps_its_chord(app):
    chord([pay(app, 1), pay(app, 2)], pay(app)).apply_async()
    first, context, decoded = receive(app)

    second, again, copy = through_the_lot_past_one(app, context, decoded)

    assert decoded[2]["chord"]
    assert copy == decoded
    assert normal(second) == normal(first)
    assert again.group == context.group


def through_the_lot_past_one(app, context, decoded):
    receive(app)
    return through_the_lot(app, context, decoded)


VALUES = [
    {1: 2},
    (1, 2),
    uuid.UUID("7d444840-9dc0-11d1-b245-5ffdce74fad2"),
    Decimal("1.10"),
    datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc).date(),
    datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc),
    b"\xff\x00",
    "nul\x00 ✓",
]


@pytest.mark.parametrize("serializer", ["json", "pickle"])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_the_body_sees_the_same_types_as_at_the_first_attempt(app, serializer, value):
    app.tasks["shop.pay"].apply_async((value,), {"again": value}, serializer=serializer)
    _, context, decoded = receive(app)

    _, _, (args, kwargs, _) = through_the_lot(app, context, decoded)

    assert (args[0], type(args[0])) == (decoded[0][0], type(decoded[0][0]))
    assert kwargs == decoded[1]


def test_arguments_of_the_call_are_kept_not_those_of_a_shortened_text(app):
    long = "x" * 100_000
    app.tasks["shop.pay"].apply_async((long,))
    _, context, decoded = receive(app)

    _, _, (args, _, _) = through_the_lot(app, context, decoded)

    assert args == [long]


def test_an_eta_that_was_waited_for_is_over(app):
    app.tasks["shop.pay"].apply_async(countdown=3600)
    _, context, decoded = receive(app)

    second, _, _ = through_the_lot(app, context, decoded)

    assert second["headers"].get("eta") is None


def test_a_delay_is_an_eta(app):
    app.tasks["shop.pay"].apply_async()
    _, context, decoded = receive(app)

    second, _, _ = through_the_lot(app, context, decoded, delay=60)

    eta = datetime.fromisoformat(second["headers"]["eta"]) - datetime.now(timezone.utc)
    assert timedelta(seconds=50) < eta <= timedelta(seconds=60)


def test_what_is_kept_is_plain_data_and_its_body_is_never_decoded(app):
    app.tasks["shop.pay"].apply_async((1,), serializer="pickle")
    first, context, (args, kwargs, _) = receive(app)

    kept = unpack(parking.keep(context, args, kwargs, "json", {}))

    assert kept["content_type"] == "application/x-python-serialize"
    assert base64.b64decode(kept["body"])[:1] == b"\x80"
    assert kept["headers"]["id"] == first["headers"]["id"]


def test_a_message_of_the_lot_has_nothing_of_ours_but_the_stamp(app):
    app.tasks["shop.pay"].apply_async()
    first, context, decoded = receive(app)

    second, _, _ = through_the_lot(app, context, decoded)

    assert {key for key in second["headers"] if "replay" in key} == {"celery_replay"}
    assert set(second["headers"]) <= set(first["headers"])


# Dispatch


class Marks:
    def __init__(self):
        self.sent = []

    def mark_sent(self, row, resend_us):
        self.sent.append((row.submission, resend_us))


def row(submission, message):
    return Row(
        submission=submission,
        operation="shop.pay",
        generation=0,
        status=RowStatus.RELEASED,
        subject="k",
        reason=Reason.IN_FLIGHT,
        wake_at=0,
        parked_at=0,
        message=message,
    )


def test_released_rows_are_published_and_marked(app):
    app.tasks["shop.pay"].apply_async((1,))
    _, context, (args, kwargs, _) = receive(app)
    kept, marks = parking.keep(context, args, kwargs, "json", {}), Marks()

    count = parking.dispatch(app, marks, [row("s1", kept), row("s2", kept)], 5 * SECOND)

    assert (count, marks.sent) == (2, [("s1", 5 * SECOND), ("s2", 5 * SECOND)])
    assert receive(app)[2][0] == receive(app)[2][0] == [1]


def test_a_row_that_can_not_be_published_does_not_hinder_the_next(app):
    app.tasks["shop.pay"].apply_async((1,))
    _, context, (args, kwargs, _) = receive(app)
    kept, marks = parking.keep(context, args, kwargs, "json", {}), Marks()

    count = parking.dispatch(app, marks, [row("bad", b"no message"), row("good", kept)], SECOND)

    assert (count, marks.sent) == (1, [("good", SECOND)])


def test_a_row_is_not_marked_while_the_broker_is_away(app, monkeypatch):
    def away(*_, **__):
        raise ConnectionError("down")

    app.tasks["shop.pay"].apply_async((1,))
    _, context, (args, kwargs, _) = receive(app)
    kept, marks = parking.keep(context, args, kwargs, "json", {}), Marks()
    monkeypatch.setattr("kombu.Producer.publish", away)

    assert parking.dispatch(app, marks, [row("s1", kept)], SECOND) == 0
    assert marks.sent == []


def test_the_brokers_of_these_tests_are_real(app):
    with app.connection_for_read() as connection:
        assert isinstance(connection, Connection)
        assert connection.transport.driver_type in ("memory", "filesystem")
