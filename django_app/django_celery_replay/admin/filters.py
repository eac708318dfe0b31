"""Filters that never ask the database for all the values there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from celery_replay.states import LetterState, Outcome, RowStatus, Word

from .display import column, stored_word, word
from .reading import stored

Choices = Iterable[tuple[str, str]]
LOOKED_AT = 1_000
"""Newest rows in which values are looked for."""


class ColumnFilter(admin.SimpleListFilter):
    """Compares the column that its parameter is named for."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the rows that have the chosen value."""
        value = self.value()
        if value is None:
            return queryset
        # PostgreSQL refuses to look for NUL, and nothing that is stored has it.
        wanted = {str(self.parameter_name): value}
        kept: QuerySet[Any] = queryset.none() if "\x00" in value else queryset.filter(**wanted)
        return kept


def word_filter(name: str, words: Iterable[Word]) -> type[ColumnFilter]:
    """Make a filter by one of the field's words."""
    choices = [(str(each), word(each)) for each in words]

    class WordFilter(ColumnFilter):
        title = name
        parameter_name = name

        def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
            return choices

    return WordFilter


JobStatus = word_filter("status", [outcome for outcome in Outcome if outcome is not Outcome.REFUSED])
RowState = word_filter("status", RowStatus)
LetterStates = word_filter("state", LetterState)


class SeenFilter(ColumnFilter):
    """Offers the values that the newest rows have."""

    label: Callable[[str], str] = staticmethod(column)

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        """Return the values that were found, and the one that was chosen."""
        name = str(self.parameter_name)
        newest = stored(model_admin.model).order_by(*model_admin.ordering).values_list(name, flat=True)
        chosen = request.GET.getlist(name)
        return [(value, self.label(value)) for value in sorted({*newest[:LOOKED_AT], *chosen})]


class TaskFilter(SeenFilter):
    """Filters by task."""

    title = "task"
    parameter_name = "operation"


class ReasonFilter(SeenFilter):
    """Filters by reason."""

    title = "reason"
    parameter_name = "reason"
    label = staticmethod(stored_word)


class TimeFilter(admin.SimpleListFilter):
    """Keeps what is not older than a choice of ages."""

    title = "time"
    parameter_name = "since"
    ages = {
        "hour": timedelta(hours=1),
        "day": timedelta(days=1),
        "week": timedelta(days=7),
        "month": timedelta(days=30),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        """Return the ages."""
        self.column = model_admin.ordering[0].removeprefix("-")
        return [("hour", "Past hour"), ("day", "Past day"), ("week", "Past 7 days"), ("month", "Past 30 days")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the rows that are young enough."""
        age = self.ages.get(self.value() or "")
        return queryset if age is None else queryset.filter(**{f"{self.column}__gte": timezone.now() - age})
