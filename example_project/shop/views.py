"""A list of orders, a page for each, and the button that starts the jobs."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from .models import Order
from .tasks import checkout as checkout_jobs


def order_list(request: HttpRequest) -> HttpResponse:
    """Show all orders."""
    orders = Order.objects.select_related("customer").order_by("number")
    return render(request, "shop/orders.html", {"orders": orders})


def order_page(request: HttpRequest, order_id: int) -> HttpResponse:
    """Show one order as the cache knows it."""
    return render(request, "shop/order.html", {"pk": order_id, "order": Order.summary(order_id)})


@require_POST
def checkout(request: HttpRequest, order_id: int) -> HttpResponse:
    """Start an order's jobs; a double click comes here twice."""
    order = get_object_or_404(Order, pk=order_id)
    transaction.on_commit(checkout_jobs(order).delay)
    return HttpResponseRedirect(reverse("order", args=[order_id]))
