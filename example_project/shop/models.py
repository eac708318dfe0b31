"""Orders, what was paid and shipped for them, and the points of a customer."""

from __future__ import annotations

from typing import Any

from django.core.cache import cache
from django.db import models, transaction


class Customer(models.Model):
    """Somebody who buys, and collects points."""

    name = models.CharField(max_length=80, unique=True)
    points = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """One order; its status goes new, paid, shipped."""

    class Status(models.TextChoices):
        NEW = "new"
        PAID = "paid"
        SHIPPED = "shipped"

    number = models.CharField(max_length=20, unique=True)
    customer = models.ForeignKey(Customer, models.PROTECT, related_name="orders")
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.NEW)
    total_cents = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.number

    def mark_paid(self, reference: str) -> str:
        """Write the payment down once, and return its reference."""
        with transaction.atomic():
            Payment.objects.get_or_create(order=self, defaults={"reference": reference})
            Order.objects.filter(pk=self.pk, status=self.Status.NEW).update(status=self.Status.PAID)
        cache.delete(self.cache_key)
        return reference

    def mark_shipped(self, label: str) -> str:
        """Write the shipment down once, and return its label."""
        with transaction.atomic():
            Shipment.objects.get_or_create(order=self, defaults={"label": label})
            Order.objects.filter(pk=self.pk).update(status=self.Status.SHIPPED)
        cache.delete(self.cache_key)
        return label

    @property
    def cache_key(self) -> str:
        return f"order:{self.pk}"

    @classmethod
    def summary(cls, order_id: int) -> dict[str, Any]:
        """Return what the order's page shows, from the cache where it is there."""
        key = f"order:{order_id}"
        found: dict[str, Any] | None = cache.get(key)
        if found is None:
            found = cls.objects.values("number", "status", "total_cents").get(pk=order_id)
            cache.set(key, found, timeout=300)
        return found


class Payment(models.Model):
    """The charge that the gateway took for an order."""

    order = models.OneToOneField(Order, models.CASCADE)
    reference = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.reference


class Shipment(models.Model):
    """The label that the carrier sold for an order."""

    order = models.OneToOneField(Order, models.CASCADE)
    label = models.CharField(max_length=40)

    def __str__(self) -> str:
        return self.label


class DayReport(models.Model):
    """What the gateway says that it took on a day."""

    day = models.DateField()
    charged_cents = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.day}: {self.charged_cents}"
