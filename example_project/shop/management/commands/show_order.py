"""Show the traces of an order's jobs."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from celery_replay.cli.timeline import show
from celery_replay.runtime import runtime_of
from example_project.shop.models import Order
from example_project.shop_project import celery_app


class Command(BaseCommand):
    """Find the jobs by their idempotency keys: no task id is needed."""

    help = __doc__

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("number")

    def handle(self, *args: Any, **options: Any) -> None:
        order = Order.objects.get(number=options["number"])
        store = runtime_of(celery_app).store
        for kind in ("charge", "points", "ship"):
            for job in store.find_jobs(key=f"{kind}:{order.pk}"):
                show(store, job)
                self.stdout.write("")
