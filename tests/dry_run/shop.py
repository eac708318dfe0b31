"""An app whose jobs a test records, and runs again by other code."""

from __future__ import annotations

import random
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

from celery import Celery

from celery_replay import ReplayTask, record, step


class CarrierDown(Exception):
    """An error of the shop's own."""


class Code:
    """What the shop's code is like at this moment; a test changes it between recording and run."""

    version = "as it failed"
    url = ""
    rate = 1.5


@step(side_effect=True, key="label:{order_id}")
def buy_label(order_id: int, express: bool = False) -> dict[str, Any]:
    """Count as a purchase, each time."""
    purchases.append(order_id)
    return {"label": f"L-{order_id}"}


@step(side_effect=True, key="notify:{order_id}")
def notify(order_id: int) -> None:
    """Fail, as the carrier is down."""
    purchases.append(-order_id)
    raise CarrierDown("closed on Sundays")


@step(side_effect=True, key="invoice:{order_id}")
def print_invoice(order_id: int) -> str:
    """Be a step that the code that failed did not come to."""
    purchases.append(1_000 + order_id)
    return "printed"


@step(side_effect=True, key="charge:{url}")
def charge(url: str) -> int:
    """Ask the outside, as an effect does."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return int(answer.status)


@step(recorded=True)
def exchange_rate(currency: str) -> float:
    """Ask a bank."""
    return Code.rate


@step
def look_up(url: str) -> int:
    """Read from the outside, which is no effect, and no record."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return int(answer.status)


purchases: list[int] = []


def tell(order_id: int) -> None:
    """Come after an order was shipped."""


def ship(self: Any, order_id: int, who: str = "ann") -> Any:
    """Ship an order, as today's code does."""
    record("begun", order=order_id)
    label = buy_label(order_id, express=True) if Code.version == "in a hurry" else buy_label(order_id)
    rate = exchange_rate("EUR")
    try:
        notify(order_id)
    except CarrierDown as error:
        record("carrier_down", why=str(error))
    if Code.version == "does more":
        return [label, print_invoice(order_id)]
    _otherwise.get(Code.version, str)()
    if Code.version == "as it failed":
        raise ValueError(f"no address of {who}")
    self.app.tasks["shop.tell"].delay(order_id)
    return [label, who, rate, random.random(), str(uuid.uuid4()), int(time.time())]


def _fail() -> None:
    raise LookupError("no such street")


def _ask_and_swallow() -> None:
    try:
        look_up(Code.url)
    except Exception:
        record("no_answer")


_otherwise: dict[str, Callable[[], object]] = {
    "another error": _fail,
    "asks the outside": lambda: look_up(Code.url),
    "asks by a step": lambda: charge(Code.url),
    "asks and swallows": _ask_and_swallow,
    "leaves": lambda: sys.exit(3),
    "hangs": lambda: time.sleep(60),
    "asks for another": lambda: exchange_rate("USD"),
}


def make_shop(name: str, **conf: Any) -> Celery:
    """Make an app on a broker in memory."""
    app = Celery(name, task_cls=ReplayTask, broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.update(replay_store="memory://", worker_hijack_root_logger=False, **conf)
    app.task(ship, bind=True, name="shop.ship", shared=False, idempotency_key="ship:{order_id}", on_incomplete="resume")
    app.task(tell, name="shop.tell", shared=False)
    return app
