"""Groups of dead letters: ten thousand with one cause are one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern
from django.utils.html import format_html
from django.utils.http import urlencode

from celery_replay.clock import Micros, wall
from celery_replay.dead_letters import Decision
from celery_replay.records import Group
from celery_replay.states import Verb

from .. import models
from ..conf import store
from ..fields import as_micros
from ..tables import GROUPS
from ..text import token
from . import histories
from .causes import cause, first_hour, said_of, sparkline
from .commands import menu
from .display import NONE, column, dotted, moment, short_moment, shown, told, two_lines, word
from .filters import ReasonFilter, TaskFilter, UnresolvedFilter
from .frozen import BOUND
from .pages import RecordAdmin
from .permissions import TRIAGE, actor, missing
from .reading import LINES, beginning, history, stored
from .revealing import ReasonForm


@admin.register(models.LetterGroup)
class LetterGroupAdmin(RecordAdmin):
    """What fails, since when, and how often."""

    table = GROUPS
    large = ("error_message",)
    detail_template = "admin/django_celery_replay/lettergroup.html"
    ordering = ("-last_seen",)
    list_display = ("what", "count", "trend", "seen", "task")
    list_display_links = None
    list_filter = (UnresolvedFilter, TaskFilter, ReasonFilter)
    search_help_text = "Task, type of the error or group, or what it begins with."

    def get_urls(self) -> list[URLPattern]:
        """Return the pages."""
        return [self.door("<path:object_id>/note/", note, "note"), *super().get_urls()]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows of a list, with the beginning of the newest message."""
        rows: QuerySet[Any] = super().get_queryset(request).annotate(message_begins=Left("error_message", 200))
        return rows

    def found(self, term: str) -> Q:
        """Search by what names a group."""
        return beginning(term, "operation", "error_type", "group_id")

    def show_list(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Return the list, after letters were counted that nobody has counted yet."""
        store().count_up()
        return super().show_list(request, extra_context)

    def record(self, request: HttpRequest, object_id: str) -> Group:
        """Return the group of an address, counted up."""
        self.require(request)
        store().count_up()
        found: Group = super().record(request, object_id)
        return found

    def complete(self, page: Sequence[Any]) -> None:
        """Find the trends of the groups on a page."""
        now = wall()
        found = trends([row.pk for row in page], now)
        for row in page:
            row.drawn = sparkline(found.get(row.pk, {}), now)

    @admin.display(description="Cause")
    def what(self, row: Any) -> str:
        """Return the exception, where it came from, and the beginning of the newest message."""
        return two_lines(self.link(models.LetterGroup, row.pk, cause(row)), column(row.message_begins, 120))

    @admin.display(description="Unresolved")
    def count(self, row: models.LetterGroup) -> str:
        """Return how many wait, of all that were ever filed, as a link to them."""
        return format_html(
            '<a href="{}">{} of {}</a>', self.letters_url(row.pk), f"{row.unresolved:,}", f"{row.filed:,}"
        )

    @admin.display(description="Task")
    def task(self, row: models.LetterGroup) -> str:
        """Return the task's name."""
        return dotted(row.operation)

    @admin.display(description="24 hours")
    def trend(self, row: Any) -> str:
        """Return a drawing of the last hours."""
        drawn: str = row.drawn
        return drawn

    @admin.display(description="Last seen, and first")
    def seen(self, row: models.LetterGroup) -> str:
        """Return when one of its letters failed last, and when the first was filed."""
        return two_lines(short_moment(row.last_seen), short_moment(row.first_seen))

    def letters_url(self, key: str, **more: str) -> str:
        """Return the address of a group's letters.

        Args:
            key: the group's, as it is stored.
        """
        return f"{self.url('changelist', model=models.DeadLetter)}?{urlencode({'group_id': key, **more})}"

    def details(self, request: HttpRequest, record: Group) -> Mapping[str, Any]:
        """Return a group's facts, and what can be done with its letters."""
        key, now = self.key(record), wall()
        trend = trends([key], now).get(key, {})
        row = models.LetterGroup(error_type=record.error_type, reason=str(record.reason), frames=record.frames)
        newest = self.link(models.DeadLetter, token(record.newest), shown(record.newest, 100))
        return {
            "headline": (cause(row), ""),
            "groups": [_counts(record, newest), _why(record)],
            "trend": sparkline(trend, now),
            "trend_said": said_of(trend, now),
            "message": told(record.error_message) or NONE,
            "letters_url": self.letters_url(key),
            "unresolved_url": self.letters_url(key, state="unresolved"),
            **menu(request),
            "bound": f"{BOUND:,}",
            "more": record.unresolved > BOUND,
            "unresolved": f"{record.unresolved:,}",
            "triage_missing": missing(request, TRIAGE),
            "note_url": self.url("note", key),
            "form": ReasonForm(label_suffix=""),
            "history": list(histories.lines(history(group_id=record.group_id, submission=""), self)),
            "most": LINES,
        }


def trends(keys: Sequence[str], now: Micros) -> dict[str, dict[Micros, int]]:
    """Return how many letters each of these groups got in each of the last hours."""
    rows = stored(models.LetterTrend).filter(group_id__in=keys, hour__gte=first_hour(now))
    found: dict[str, dict[Micros, int]] = {}
    for group_id, hour, count in rows.values_list("group_id", "hour", "filed"):
        found.setdefault(group_id, {})[as_micros(hour)] = count
    return found


def _counts(group: Group, newest: object) -> tuple[str, list[tuple[str, object]]]:
    return "Letters", [
        ("Unresolved", group.unresolved),
        ("Ever filed", group.filed),
        ("First seen", moment(group.first_seen)),
        ("Last seen", moment(group.last_seen)),
        ("Newest", newest),
    ]


def _why(group: Group) -> tuple[str, list[tuple[str, object]]]:
    return "Why these are one group", [
        ("Task", shown(group.operation)),
        ("Reason", word(group.reason)),
        ("Error", shown(group.error_type) or NONE),
        ("Through", shown(group.frames) or "none of the project's own functions"),
        ("Made by", f"version {shown(group.group_id.partition(':')[0], 20)} of the grouping"),
    ]


def note(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Write a note about a group."""
    model_admin.require(request, TRIAGE)
    group: Group = model_admin.record(request, object_id)
    form = ReasonForm(request.POST)
    if form.is_valid():
        decision = Decision(verb=Verb.NOTED, actor=actor(request), text=form.cleaned_data["text"])
        store().note_group(group.group_id, decision)
        messages.success(request, "Noted.")
    else:
        messages.error(request, "Write something to be noted.")
    return HttpResponseRedirect(model_admin.url("change", model_admin.key(group)))
