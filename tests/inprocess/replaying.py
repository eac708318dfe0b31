"""Sends letters as a person would who has looked at each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from celery_replay.exceptions import TriageRefused
from celery_replay.replay.message import PayloadUnreadable
from celery_replay.replay.plan import Item, Options
from celery_replay.replay.sending import Order, choose, send


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What became of one letter."""

    item: Item
    task_id: str = ""
    submission: str = ""
    said: str = ""

    @property
    def ok(self) -> bool:
        return bool(self.task_id)


def send_all(lab: Any, items: Iterable[Item], options: Options, reason: str = "mended") -> list[Sent]:
    order = Order(actor="ann", reason=reason, with_canvas=options.with_canvas, operation_id="operation")
    return [_sent(lab, item, options, order) for item in items]


def _sent(lab: Any, item: Item, options: Options, order: Order) -> Sent:
    if not item.ready:
        return Sent(item=item, said=item.said)
    try:
        begun = send(lab.runtime, choose(lab.runtime, item, options), order)
    except (TriageRefused, PayloadUnreadable) as refusal:
        return Sent(item=item, said=refusal.message)
    return Sent(item=item, task_id=begun.task_id, submission=begun.submission)
