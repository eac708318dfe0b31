"""Models with a field of each type that Django has; they are no installed app's, a test makes their tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.db import connections, models
from django.db.models import Model

LABEL = "everything"


class Status(models.TextChoices):
    PAID = "paid"
    SHIPPED = "shipped"


class Customer(models.Model):  # noqa: DJ008
    name = models.CharField(max_length=100)

    class Meta:
        app_label = LABEL


class Everything(models.Model):  # noqa: DJ008
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    customer = models.ForeignKey(Customer, models.CASCADE, null=True, db_constraint=False)
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.PAID)
    note = models.TextField(default="")
    slug = models.SlugField(default="")
    email = models.EmailField(default="")
    url = models.URLField(default="")
    document = models.FileField(default="")
    address = models.GenericIPAddressField(null=True)
    small = models.SmallIntegerField(default=0)
    large = models.BigIntegerField(default=0)
    positive = models.PositiveIntegerField(default=0)
    ratio = models.FloatField(default=0)
    total = models.DecimalField(max_digits=12, decimal_places=4, default=0)
    active = models.BooleanField(null=True)
    day = models.DateField(null=True)
    hour = models.TimeField(null=True)
    moment = models.DateTimeField(null=True)
    took = models.DurationField(null=True)
    picture = models.BinaryField(null=True)
    data = models.JSONField(null=True)
    token = models.CharField(max_length=40, default="")

    class Meta:
        app_label = LABEL


class Animal(models.Model):  # noqa: DJ008
    name = models.CharField(max_length=20)

    class Meta:
        app_label = LABEL


class Dog(Animal):  # noqa: DJ008
    tricks = models.IntegerField(default=0)

    class Meta:
        app_label = LABEL


PORTABLE: tuple[type[Model], ...] = (Customer, Everything, Animal, Dog)


def _postgres_only() -> tuple[type[Model], ...]:
    from django.contrib.postgres import fields

    class Ranges(models.Model):  # noqa: DJ008
        tags = fields.ArrayField(models.CharField(max_length=20), default=list)
        nested = fields.ArrayField(fields.ArrayField(models.IntegerField()), default=list)
        numbers = fields.IntegerRangeField(null=True)
        prices = fields.DecimalRangeField(null=True)
        stay = fields.DateTimeRangeField(null=True)

        class Meta:
            app_label = LABEL

    return (Ranges,)


Ranges: Any = None
with suppress(ImportError):
    (Ranges,) = _postgres_only()


@contextmanager
def tables(alias: str, *classes: type[Model]) -> Iterator[None]:
    """Make the tables of models for as long as this lasts."""
    connection = connections[alias]
    with connection.schema_editor() as editor:
        for model in classes:
            editor.create_model(model)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            for model in reversed(classes):
                editor.delete_model(model)
