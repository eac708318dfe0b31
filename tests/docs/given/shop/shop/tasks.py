from celery import shared_task
from django.db.models import F

from shop.models import Customer, Order
from shop.partners import carrier, mailer


@shared_task
def ship_order(order_id):
    return carrier.buy_label(Order.objects.get(pk=order_id))


@shared_task
def award_points(order_id):
    Customer.objects.filter(order=order_id).update(points=F("points") + 10)


@shared_task
def confirm(order_id):
    mailer.send(order_id)
    carrier.book_pickup(order_id)
