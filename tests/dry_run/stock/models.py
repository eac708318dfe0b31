"""Items of a store, with what only PostgreSQL has."""

from __future__ import annotations

import django
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, DateRangeField, HStoreField, IntegerRangeField, RangeOperators
from django.db import models
from django.db.models import Q

_ENOUGH = {"condition" if django.VERSION >= (5, 1) else "check": Q(count__gte=0)}


class Item(models.Model):
    """Something in a store."""

    name = models.CharField(max_length=20, unique=True)
    count = models.IntegerField(default=0)
    tags = ArrayField(models.CharField(max_length=10), default=list)
    grid = ArrayField(ArrayField(models.IntegerField()), default=list)
    sizes = IntegerRangeField(null=True)
    sold = DateRangeField(null=True)
    data = models.JSONField(default=dict)
    labels = HStoreField(default=dict)
    price = models.DecimalField(max_digits=30, decimal_places=12, default=0)
    seen = models.DateTimeField(null=True)

    class Meta:
        app_label = "stock"
        constraints = (models.CheckConstraint(name="some", **_ENOUGH),)

    def __str__(self) -> str:
        return self.name


class Move(models.Model):
    """An item's way; nothing of it is recorded, though it is declared."""

    item = models.ForeignKey(Item, models.CASCADE)
    by = models.IntegerField()

    class Meta:
        app_label = "stock"

    def __str__(self) -> str:
        return str(self.by)


class Booked(models.Model):
    """What can't overlap, seen when the transaction is committed."""

    days = IntegerRangeField()

    class Meta:
        app_label = "stock"
        constraints = (
            ExclusionConstraint(
                name="no_overlap",
                expressions=[("days", RangeOperators.OVERLAPS)],
                deferrable=models.Deferrable.DEFERRED,
            ),
        )

    def __str__(self) -> str:
        return str(self.days)


class Price(models.Model):
    """What is not declared, and stays live."""

    amount = models.IntegerField()

    class Meta:
        app_label = "stock"

    def __str__(self) -> str:
        return str(self.amount)


class Old(models.Model):
    """A table of an older Django: its numbers come from a sequence that its default names."""

    name = models.CharField(max_length=20)

    class Meta:
        app_label = "stock"
        db_table = "stock_old"
        managed = False

    def __str__(self) -> str:
        return self.name


MODELS = (Item, Move, Booked, Price)
