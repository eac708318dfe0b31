"""What a spawned steward is given of its worker's app."""

from __future__ import annotations

import pickle
import ssl
import struct
import sys
import threading
import types

import pytest
from celery import Celery

from celery_replay.steward import hand_over


class Settings:
    broker_url = "redis://elsewhere/5"
    replay_store = "memory://"


def arrived(app):
    """Build the app that a steward would have."""
    packed = hand_over(app)
    (length,) = struct.unpack(">Q", packed[:8])
    assert len(packed) == 8 + length
    _, _, places, inner = pickle.loads(packed[8:])
    kind, parts = pickle.loads(inner)
    return kind(**parts, set_as_current=False), {name: value for name, value in places.items() if value}


@pytest.mark.parametrize(
    "value", [lambda *_: None, threading.Lock(), ssl.create_default_context(), {"q": [lambda: 1]}], ids=type
)
def test_what_can_not_be_packed_stays_behind_and_the_rest_arrives(value):
    app = Celery("shop", broker="redis://localhost/3", set_as_current=False)
    app.conf.update(task_routes=value, task_annotations=value, replay_store="memory://", task_default_queue="shop")

    there, places = arrived(app)

    assert (there.conf.broker_url, there.conf.task_default_queue) == ("redis://localhost/3", "shop")
    assert places == {"replay_store": "memory://"}
    assert there.conf.task_routes is None


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ({"replay_ledger": "redis://host/5"}, {"replay_store": "redis://host/5"}),
        ({"replay_ledger": "redis://host/5", "replay_journal": "django"}, None),
    ],
)
def test_a_ledger_and_its_journal_arrive_as_they_were_named(given, places):
    app = Celery("shop", set_as_current=False)
    app.conf.update(given)

    assert arrived(app)[1] == (places or given)


def test_a_router_of_the_script_itself_stays_behind(monkeypatch):
    main = types.ModuleType("__main__")
    main.Shop = type("Shop", (Celery,), {"__module__": "__main__"})
    main.route = types.FunctionType((lambda *_: None).__code__, vars(main), "route")
    main.route.__qualname__ = "route"
    monkeypatch.setitem(sys.modules, "__main__", main)
    app = main.Shop("shop", broker="redis://localhost/3", set_as_current=False)
    app.conf.update(task_routes=main.route, replay_store="memory://")

    there, _ = arrived(app)

    assert (type(there), there.conf.task_routes, there.conf.broker_url) == (Celery, None, "redis://localhost/3")


@pytest.mark.parametrize(
    "source", [Settings, sys.modules[__name__], f"{__name__}:Settings", {"broker_url": "redis://elsewhere/5"}]
)
def test_settings_arrive_wherever_they_come_from(source, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "broker_url", "redis://elsewhere/5", raising=False)
    app = Celery("shop", set_as_current=False)
    app.config_from_object(source)
    app.conf.replay_store = "memory://"

    there, _ = arrived(app)

    assert there.conf.broker_url == "redis://elsewhere/5"
