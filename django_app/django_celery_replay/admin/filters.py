"""Filters that never ask the database for all the values there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from celery_replay.states import Effect, LetterState, Outcome, RowStatus, Word

from ..models import LetterGroup
from .causes import cause
from .display import column, stored_word, word
from .permissions import actor
from .reading import stored

Choices = Iterable[tuple[str, str]]
LOOKED_AT = 1_000
"""Newest rows in which values are looked for."""
GROUPS_OFFERED = 20


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
Effects = word_filter("effect", Effect)


class LetterStates(word_filter("state", LetterState)):  # type: ignore[misc]
    """Filters by state, or by all states that still want something."""

    waiting = tuple(str(state) for state in LetterState if state.unresolved)

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        """Return the states, and the one for several."""
        return [("unresolved", "unresolved"), *super().lookups(request, model_admin)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the rows in the chosen state, or in one of several."""
        if self.value() == "unresolved":
            rows: QuerySet[Any] = queryset.filter(state__in=self.waiting)
            return rows
        kept: QuerySet[Any] = super().queryset(request, queryset)
        return kept


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


class AssigneeFilter(SeenFilter):
    """Filters by who looks after it."""

    title = "assigned to"
    parameter_name = "assignee"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        """Return those that were found; the visitor and nobody in any case."""
        found = [(value, label) for value, label in super().lookups(request, model_admin) if value]
        own = actor(request)
        return [("-", "nobody"), (own, "me"), *(each for each in found if each[0] not in ("-", own))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the rows of the one that was chosen."""
        return queryset.filter(assignee="") if self.value() == "-" else super().queryset(request, queryset)


class GroupFilter(ColumnFilter):
    """Filters by group: offers those that got letters last."""

    title = "group"
    parameter_name = "group_id"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        """Return the newest groups, and the one that was chosen."""
        names = ("error_type", "reason", "frames")
        newest = stored(LetterGroup).order_by("-last_seen").only(*names)[:GROUPS_OFFERED]
        found = {row.pk: cause(row) for row in newest}
        chosen = request.GET.get(self.parameter_name)
        return [*found.items(), *([(chosen, column(chosen))] if chosen and chosen not in found else [])]


class UnresolvedFilter(admin.SimpleListFilter):
    """Shows groups with letters that want something, unless all are asked for."""

    title = "letters"
    parameter_name = "show"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        """Return what else there is."""
        return [("all", "All groups")]

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Name the one that is chosen where nothing is."""
        first, *others = super().choices(changelist)
        yield {**first, "display": "With unresolved letters"}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep the groups that want something."""
        return queryset if self.value() == "all" else queryset.filter(unresolved__gt=0)


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
