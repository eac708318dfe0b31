"""Thank the customer of the first order."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from example_project.shop.models import Order
from example_project.shop.tasks import thank_customer


class Command(BaseCommand):
    """Start the job, and print the order's number, its task id, and the customer's points."""

    help = __doc__

    def handle(self, *args: Any, **options: Any) -> None:
        order = Order.objects.select_related("customer").order_by("pk")[0]
        result = thank_customer.delay(order.pk)
        self.stdout.write(f"{order.number} {result.id} {order.customer.points}")
