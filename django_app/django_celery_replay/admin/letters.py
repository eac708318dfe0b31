"""Dead letters: jobs that need somebody's decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_http_methods

from celery_replay.records import Letter
from celery_replay.states import Effect, LetterState

from .. import models
from ..tables import LETTERS
from .commands import DRY_RUN_THEM, commands, menu
from .deciding import ask, decide
from .decisions import CHOICES
from .display import column, dotted, short_moment, stored_badge, stored_word, two_lines
from .editing import edit
from .filters import AssigneeFilter, Effects, GroupFilter, LetterStates, ReasonFilter, TaskFilter, TimeFilter
from .frozen import BOUND, freeze_rows
from .letter_pages import letter_page
from .operations import decide_operation, operation
from .pages import RecordAdmin
from .reading import few_or_all, jobs_beginning
from .replaying import look, replay
from .revealing import reveal
from .trials import ask_for_trial, fork, trial, trials, tried
from .troubles import with_troubles_told


@admin.register(models.DeadLetter)
class DeadLetterAdmin(RecordAdmin):
    """What failed for good, was lost, or was refused."""

    table = LETTERS
    large = ("message", "edited", "traceback", "error_message", "frames")
    change_list_template = "admin/django_celery_replay/deadletter_list.html"
    detail_template = "admin/django_celery_replay/deadletter.html"
    ordering = ("-last_failed",)
    list_display = ("task", "triage", "error", "why", "last")
    list_filter = (LetterStates, Effects, AssigneeFilter, TaskFilter, ReasonFilter, GroupFilter, TimeFilter)
    search_help_text = "Submission, or its job's key, task id or trace id, or what it begins with."

    def get_urls(self) -> list[URLPattern]:
        """Return the pages, those on which is decided before those that only show."""
        return [
            self.door("decide/", decide, "decide"),
            self.door("replay/", replay, "replay"),
            self.door("trial/", trial, "trial"),
            self.door("trials/<str:operation_id>/", trials, "trials", "GET", "HEAD"),
            self.door("operation/<str:operation_id>/", operation, "operation", "GET", "HEAD"),
            self.door("operation/<str:operation_id>/decide/", decide_operation, "decide_operation"),
            self.door("<path:object_id>/edit/", edit, "edit", "GET", "HEAD", "POST"),
            self.door("<path:object_id>/fork/", fork, "fork", "GET", "HEAD", "POST"),
            self.door("<path:object_id>/trial/<str:operation_id>/", tried, "tried", "GET", "HEAD"),
            self.door("<path:object_id>/reveal/", reveal, "reveal"),
            *super().get_urls(),
        ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows of a list, with the beginning of each error's message."""
        rows: QuerySet[Any] = super().get_queryset(request).annotate(message_begins=Left("error_message", 200))
        return rows

    def found(self, term: str) -> Q:
        """Search by the indexes of the jobs, and by the letters' own."""
        # Not the letters' own submissions besides: no database would answer that by an index.
        return Q(submission__in=few_or_all(jobs_beginning(term), "submission"))

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return what the visitor may do with many letters: where there is nothing, nothing can be selected."""
        return {each.name: (self._choose, each.name, each.label) for each in commands(request) if not each.missing}

    @method_decorator(require_http_methods(["GET", "HEAD", "POST"]))
    @with_troubles_told
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list; ask what is to be done with those letters of it that were chosen."""
        if request.method == "POST":
            return self._choose(request)
        return self.show_list(request, {**menu(request), "bound": f"{BOUND:,}"})

    def _choose(self, request: HttpRequest) -> HttpResponse:
        wanted = next((each for each in commands(request) if each.name == request.POST.get("action")), None)
        if wanted is None:
            return self._nothing(request, "Choose what is to be done first.")
        self.require(request, *filter(None, [wanted.missing]))
        rows = self.get_changelist_instance(request).get_queryset(request)
        if request.POST.get("index") != "all":
            rows = rows.filter(pk__in=request.POST.getlist(ACTION_CHECKBOX_NAME))
        frozen = freeze_rows(rows)
        if not frozen:
            return self._nothing(request, "No dead letter was chosen.")
        if wanted.name == DRY_RUN_THEM:
            return ask_for_trial(self, request, frozen)
        choice = CHOICES.get(wanted.name)
        return ask(self, request, choice, frozen) if choice else look(self, request, frozen)

    def _nothing(self, request: HttpRequest, why: str) -> HttpResponse:
        messages.warning(request, why)
        return HttpResponseRedirect(request.get_full_path())

    @admin.display(description=mark_safe('<input type="checkbox" id="action-toggle">'))
    def action_checkbox(self, obj: models.DeadLetter) -> SafeString:
        """Return the box that selects a letter. Django's own says its name as it is, tricks and all."""
        # A widget would load templates for each of them, which takes as long as half the page.
        return format_html(
            '<input type="checkbox" name="{}" value="{}" class="action-select" aria-label="Select {}">',
            ACTION_CHECKBOX_NAME,
            obj.pk,
            column(obj.pk),
        )

    @admin.display(description="Task")
    def task(self, row: models.DeadLetter) -> str:
        """Return the task's name, and which of its jobs it is."""
        return two_lines(dotted(row.operation), column(row.key or row.submission, 60))

    @admin.display(description="State")
    def triage(self, row: models.DeadLetter) -> str:
        """Return the state in its colour, and who looks after it."""
        return two_lines(stored_badge(LetterState, row.state), column(row.assignee, 30) if row.assignee else "")

    @admin.display(description="Error")
    def error(self, row: Any) -> str:
        """Return the exception's class, without its module, and the beginning of its message."""
        return two_lines(column(row.error_type.rpartition(".")[2]), column(row.message_begins, 100))

    @admin.display(description="Effect")
    def why(self, row: models.DeadLetter) -> str:
        """Return what was known of its side effects when it was filed, and why it was."""
        return two_lines(stored_badge(Effect, row.effect), stored_word(row.reason))

    @admin.display(description="Last failed")
    def last(self, row: models.DeadLetter) -> str:
        """Return when it failed last, and in which of its attempts."""
        tries = "1 attempt" if row.attempts == 1 else f"{row.attempts:,} attempts"
        return two_lines(short_moment(row.last_failed), tries)

    def details(self, request: HttpRequest, record: Letter) -> Mapping[str, Any]:
        """Return what the page of one letter shows."""
        return letter_page(self, request, record)
