"""Make orders and start their jobs."""

from __future__ import annotations

from argparse import ArgumentParser
from random import Random
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from example_project.shop.models import Customer, Order
from example_project.shop.tasks import checkout, close_day


class Command(BaseCommand):
    """Place orders, two in a row for each customer."""

    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("count", type=int)
        parser.add_argument("--seed", type=int, default=7)
        parser.add_argument("--double-click", type=int, nargs="*", default=[], metavar="N")
        parser.add_argument("--close-day", action="store_true", help="start the nightly jobs too")

    def handle(self, *args: Any, **options: Any) -> None:
        draw = Random(options["seed"])
        orders = [place_order(number, draw) for number in range(options["count"])]
        for number, order in enumerate(orders):
            for _ in range(2 if number in options["double_click"] else 1):
                checkout(order).delay()
        if options["close_day"]:
            close_day(timezone.now().date(), [order.pk for order in orders]).delay()
        self.stdout.write(f"{options['count']} orders placed")


def place_order(number: int, draw: Random) -> Order:
    """Write down the order with this number; its total is drawn."""
    customer, _ = Customer.objects.get_or_create(name=f"Customer {number // 2}")
    return Order.objects.create(
        number=f"ORDER-{number:04}",
        customer=customer,
        total_cents=draw.randrange(1_000, 9_900, 100),
    )
