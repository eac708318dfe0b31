"""More models for scratch databases: secrets, long decimals, and what only PostgreSQL has."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import django
from django.db import models
from django.db.models import Model

from django_celery_replay.fields import MicrosecondsField
from tests.django_store.everything import LABEL, Customer


class Precise(models.Model):  # noqa: DJ008
    amount = models.DecimalField(max_digits=40, decimal_places=10)
    code = models.CharField(max_length=20, unique=True)

    class Meta:
        app_label = LABEL


class Secrets(models.Model):  # noqa: DJ008
    token = models.CharField(max_length=40, unique=True)
    password = models.TextField()
    short = models.CharField(max_length=3)
    pin = models.IntegerField()
    maybe = models.DateField(null=True)
    owner = models.ForeignKey(Customer, models.CASCADE)
    choice = models.CharField(max_length=1, choices=[("a", "A"), ("b", "B")])
    moment = models.DateTimeField()
    extra = models.JSONField()
    address = models.GenericIPAddressField()

    class Meta:
        app_label = LABEL


class Keyed(models.Model):  # noqa: DJ008
    api_key = models.CharField(max_length=40, primary_key=True)
    n = models.IntegerField()

    class Meta:
        app_label = LABEL


class Dated(models.Model):  # noqa: DJ008
    made = models.DateTimeField(auto_now_add=True)
    changed = models.DateTimeField(auto_now=True)

    class Meta:
        app_label = LABEL


class Tag(models.Model):  # noqa: DJ008
    name = models.CharField(max_length=20)

    class Meta:
        app_label = LABEL


class Tagged(models.Model):  # noqa: DJ008
    tags = models.ManyToManyField(Tag)

    class Meta:
        app_label = LABEL


class Colour:
    def __init__(self, code: str) -> None:
        self.code = code


class ColourField(models.CharField):  # type: ignore[type-arg]
    """A field of a project's own: its values are of a type of its own."""

    def from_db_value(self, value: Any, *_: Any) -> Any:
        return Colour(value)

    def to_python(self, value: Any) -> Any:
        return Colour(value) if isinstance(value, str) else value

    def get_prep_value(self, value: Any) -> Any:
        return value.code


class Painted(models.Model):  # noqa: DJ008
    colour = ColourField(max_length=20)
    at = MicrosecondsField()

    class Meta:
        app_label = LABEL


class PaintedRed(Painted):  # noqa: DJ008
    class Meta:
        app_label = LABEL
        proxy = True


class Looked(models.Model):  # noqa: DJ008
    """A view of somebody else's."""

    colour = models.CharField(max_length=20)

    class Meta:
        app_label = LABEL
        managed = False
        db_table = "everything_view"


class LookedAgain(models.Model):  # noqa: DJ008
    class Meta:
        app_label = LABEL
        managed = False
        db_table = "everything_painted"


class Grown(models.Model):  # noqa: DJ008
    size = models.IntegerField(**({"db_default": 3} if django.VERSION >= (5, 0) else {"default": 3}))

    class Meta:
        app_label = LABEL


class Older(Grown):  # noqa: DJ008
    class Meta:
        app_label = LABEL


class Line(models.Model):  # noqa: DJ008
    if django.VERSION >= (5, 2):
        pk = models.CompositePrimaryKey("order", "number")
    order = models.IntegerField()
    number = models.IntegerField()
    code = models.CharField(max_length=20)

    class Meta:
        app_label = LABEL


class Alien(models.Func):
    function = "gen_alien"


def _hard() -> type[Model]:
    checked = {
        "condition" if django.VERSION >= (5, 1) else "check": models.Q(n__gt=Alien(output_field=models.IntegerField()))
    }
    default = {"db_default": Alien()} if django.VERSION >= (5, 0) else {}

    class Hard(models.Model):  # noqa: DJ008
        n = models.IntegerField(**default)
        name = models.CharField(max_length=20)

        class Meta:
            app_label = LABEL
            constraints = (
                models.CheckConstraint(name="alien_check", **checked),
                models.UniqueConstraint(Alien("name"), name="alien_unique"),
            )

    return Hard


class NoColumn(models.Field):  # type: ignore[type-arg]
    def db_type(self, connection: Any) -> str:
        raise NotImplementedError("of another database")


class Impossible(models.Model):  # noqa: DJ008
    shape = NoColumn()

    class Meta:
        app_label = LABEL


Hard = _hard()
MODELS: tuple[type[Model], ...] = (
    Precise, Secrets, Keyed, Dated, Tag, Tagged, Painted, PaintedRed, Looked, LookedAgain, Hard, Line, Grown, Older,
)  # fmt: skip


def _postgres_only() -> type[Model]:
    from django.contrib.postgres.constraints import ExclusionConstraint
    from django.contrib.postgres.fields import HStoreField, RangeOperators
    from django.contrib.postgres.indexes import GinIndex
    from django.contrib.postgres.search import SearchVectorField

    class Odd(models.Model):  # noqa: DJ008
        name = models.CharField(max_length=20, db_collation="und-x-icu")
        n = models.IntegerField()
        labels = HStoreField(default=dict)
        found = SearchVectorField()

        class Meta:
            app_label = LABEL
            constraints = (
                ExclusionConstraint(name="no_overlap", expressions=[("n", RangeOperators.EQUAL)]),
                models.UniqueConstraint(name="odd_unique", fields=["name", "n"]),
            )
            indexes = (GinIndex(name="by_gin", fields=["found"]), models.Index(name="by_n", fields=["n"]))

    return Odd


Odd: Any = None
with suppress(ImportError):
    Odd = _postgres_only()
    MODELS += (Odd,)
