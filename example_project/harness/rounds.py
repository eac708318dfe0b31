"""One round: the same orders and the same faults on one kind of Celery."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from .columns import Column
from .faults import Killer, Plan
from .processes import Shop
from .screen import Screen
from .witness import Sighting, Witness

QUIET_S = 8.0
"""Seconds without change after which a round is over: longer than any lease, that of a killed steward included."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a round left behind."""

    column: Column
    seen: Sighting
    shop: Shop
    plan: Plan
    kills: int
    caught: list[str]
    seconds: float


def play(column: Column, shop: Shop, orders: int, seed: int, screen: Screen) -> Outcome:
    """Run the round of one column in a new shop; it stays open."""
    started = time.monotonic()
    plan = Plan.draw(orders, seed)
    witness = Witness(shop)
    open_shop(shop, witness, plan, orders, seed)
    killer = Killer(shop, witness, acks_late=column.acks_late)
    for seen in until_quiet(witness):
        killer.follow(plan.kills, seen)
        screen.progress(column.name, seen, killer.kills)
    return Outcome(
        column=column,
        shop=shop,
        plan=plan,
        seen=witness.look(),
        kills=killer.kills,
        caught=killer.caught,
        seconds=time.monotonic() - started,
    )


def open_shop(running: Shop, witness: Witness, plan: Plan, orders: int, seed: int) -> None:
    """Make the databases, place the orders, repeat some messages, start the workers."""
    running.manage("migrate")
    if "Replay" in running.env["SHOP_BASE"]:
        running.manage("migrate", "--database", "replay")
    clicks = [str(number) for number in plan.double_clicks]
    words = [str(orders), "--seed", str(seed), "--close-day", "--double-click", *clicks]
    running.manage("place_orders", *words)
    messages = witness.messages()
    for number in plan.redeliveries:
        witness.send_again(messages[number])
    running.start_workers(2)


def until_quiet(witness: Witness) -> Iterator[Sighting]:
    """Yield what is seen, until nothing moves any more and nothing waits in the broker."""
    last, moved = None, time.monotonic()
    while True:
        seen = witness.look()
        yield seen
        if seen != last or seen.messages:
            last, moved = seen, time.monotonic()
        elif time.monotonic() - moved > QUIET_S:
            return
        time.sleep(0.03)
