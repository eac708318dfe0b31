from celery import shared_task
from django.db.models import F
from shop.models import Customer, Order
from shop.partners import carrier, mailer

from celery_replay import record, step


def find_label(order_id):
    return carrier.label_of(order_id)


@shared_task(idempotency_key="ship:{order_id}", verify=find_label)
def ship_order(order_id):
    order = Order.objects.get(pk=order_id)
    record("order_loaded", status=order.status)
    return carrier.buy_label(order)


@shared_task(idempotency_key="points:{order_id}", atomic="default")
def award_points(order_id):
    Customer.objects.filter(order=order_id).update(points=F("points") + 10)


@step(side_effect=True, key="mail:{order_id}")
def send_mail(order_id):
    return mailer.send(order_id)


@shared_task(idempotency_key="confirm:{order_id}", stepwise=True)
def confirm(order_id):
    send_mail(order_id)
    return carrier.book_pickup(order_id)


@shared_task
def print_invoice(order_id):
    return carrier.book_pickup(order_id)
