"""Mail a receipt for each order that was paid."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from example_project.shop.models import Order
from example_project.shop.tasks import send_receipt


class Command(BaseCommand):
    """Start a job for each receipt."""

    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--mistyped", type=int, default=0, help="so many customers mistyped their address")

    def handle(self, *args: Any, **options: Any) -> None:
        orders = Order.objects.exclude(status=Order.Status.NEW).order_by("pk")
        for number, order in enumerate(orders):
            at = "@@" if number < options["mistyped"] else "@"
            send_receipt.delay(order.pk, f"customer{order.customer_id}{at}example.org")
        self.stdout.write(f"{len(orders)} receipts to be mailed")
