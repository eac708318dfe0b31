"""The shop's background jobs. Their bodies are the same on plain Celery and on celery-replay.

They are written with care: each looks at the database before it acts. On plain Celery that is
not enough. Two copies that run at once both look and both act, and a worker can die after the
carrier was paid and before the database knows.
"""

from __future__ import annotations

import os
import time
from datetime import date

from celery import chain, chord, shared_task
from celery.canvas import Signature
from django.core.validators import validate_email
from django.db.models import F

from celery_replay import record, step
from example_project.shop_project.celery import replay_options

from . import partners
from .models import Customer, DayReport, Order, Payment, Shipment

RELEASE = int(os.environ.get("SHOP_RELEASE", "1"))
"""Of the shop's code. The second one has a bug less."""


def checkout(order: Order) -> Signature:
    """Return the jobs of one order, one after the other."""
    return chain(
        charge_order.si(order.pk),
        award_points.si(order.pk, order.customer_id),
        ship_order.si(order.pk),
    )


def close_day(day: date, orders: list[int]) -> Signature:
    """Return the nightly jobs: ask the gateway about each order, then write the report."""
    return chord([confirm_charge.si(pk) for pk in orders], write_day_report.s(day.isoformat()))


def finish_charge(order_id: int) -> str | None:
    """Ask the gateway whether a lost attempt had charged; if so, write down what it could not."""
    order = Order.objects.get(pk=order_id)
    reference = partners.find_charge(order.number)
    return order.mark_paid(reference) if reference else None


def finish_shipment(order_id: int) -> str | None:
    """Ask the carrier whether a lost attempt had bought; if so, write down what it could not."""
    order = Order.objects.get(pk=order_id)
    label = partners.find_label(order.number)
    return order.mark_shipped(label) if label else None


@shared_task(**replay_options(idempotency_key="charge:{order_id}", on_incomplete="verify", verify=finish_charge))
def charge_order(order_id: int) -> str:
    """Take the money for an order."""
    if payment := Payment.objects.filter(order=order_id).first():
        return payment.reference
    order = Order.objects.get(pk=order_id)
    return order.mark_paid(partners.charge(order.number, order.total_cents))


@shared_task(**replay_options(idempotency_key="points:{order_id}", atomic="default"))
def award_points(order_id: int, customer_id: int) -> int:
    """Give the customer one point for each euro of an order."""
    points = points_for(Order.objects.get(pk=order_id))
    Customer.objects.filter(pk=customer_id).update(points=F("points") + points)
    return points


def points_for(order: Order) -> int:
    """Work out the points of an order, which takes a slow rule engine a moment."""
    time.sleep(0.04)
    return order.total_cents // 100


@shared_task(**replay_options(idempotency_key="ship:{order_id}", on_incomplete="verify", verify=finish_shipment))
def ship_order(order_id: int) -> str:
    """Buy a label for an order and mark it as shipped."""
    if shipment := Shipment.objects.filter(order=order_id).first():
        return shipment.label
    order = Order.objects.get(pk=order_id)
    return order.mark_shipped(partners.buy_label(order.number))


@step(side_effect=True, key="mail:{number}")
def mail_receipt(number: str, email: str) -> str:
    """Mail a receipt; done once, however often the job is retried or replayed."""
    return partners.mail_receipt(number, email)


@shared_task(**replay_options(idempotency_key="receipt:{order_id}", stepwise=True))
def send_receipt(order_id: int, email: str) -> str:
    """Mail the receipt for an order."""
    order = Order.objects.get(pk=order_id)
    validate_email(email)
    record("receipt_written", total_cents=order.total_cents)
    return mail_receipt(order.number, email)


@step(side_effect=True, key="gift:{number}")
def send_gift(number: str) -> str:
    """Send a gift to a customer; done once, however often the job is replayed."""
    return partners.send_gift(number)


@shared_task(
    **replay_options(
        idempotency_key="thanks:{order_id}",
        stepwise=True,
        state={
            "orders": lambda order_id: Order.objects.filter(customer__orders=order_id),
            "customer": lambda order_id: Customer.objects.filter(orders=order_id),
        },
    )
)
def thank_customer(order_id: int, rate: int = 1) -> int:
    """Send a gift, and give points: the more, the fewer orders came before."""
    order = Order.objects.get(pk=order_id)
    record("gift_sent", gift=send_gift(order.number))
    earlier = Order.objects.filter(customer=order.customer_id, pk__lt=order.pk).count()
    # The first release forgot that an order may be a customer's first one.
    points = rate * (100 // earlier if RELEASE == 1 else 100 // (earlier + 1))
    Customer.objects.filter(pk=order.customer_id).update(points=F("points") + points)
    return points


@shared_task(**replay_options(on_incomplete="resume"))
def confirm_charge(order_id: int) -> int:
    """Ask the gateway what it took for an order, in cents."""
    return partners.charged_cents(Order.objects.get(pk=order_id).number)


@shared_task(**replay_options(idempotency_key="report:{day}", atomic="default"))
def write_day_report(amounts: list[int], day: str) -> int:
    """Write down what the gateway took on a day."""
    DayReport.objects.create(day=date.fromisoformat(day), charged_cents=sum(amounts))
    return sum(amounts)
