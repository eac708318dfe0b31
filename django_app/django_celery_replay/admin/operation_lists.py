"""Operations: the replays of many letters, whoever began them and where."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from celery_replay.states import OperationState

from .. import models
from ..tables import OPERATIONS
from ..text import token
from .display import column, short_moment, stored_badge, two_lines
from .pages import RecordAdmin
from .reading import beginning
from .troubles import with_troubles_told


@admin.register(models.ReplayOperation)
class ReplayOperationAdmin(RecordAdmin):
    """What is being replayed, how far that has come, and what stopped it."""

    table = OPERATIONS
    large = ("pending", "recent", "options")
    ordering = ("-began_at",)
    list_display = ("began", "stands", "progress", "ended", "why")
    list_display_links = None
    search_help_text = "Operation, or what it begins with."

    def found(self, term: str) -> Q:
        """Search by what names an operation."""
        return beginning(term, "operation_id")

    @method_decorator(require_safe)
    @with_troubles_told
    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Lead to the page of the command, among the letters that it is about."""
        record = self.record(request, object_id)
        return HttpResponseRedirect(self.url("operation", token(record.operation_id), model=models.DeadLetter))

    @admin.display(description="Began")
    def began(self, row: models.ReplayOperation) -> str:
        """Return when it began, as a link to its page."""
        address = self.url("operation", row.pk, model=models.DeadLetter)
        return format_html('<a href="{}">{}</a>', address, short_moment(row.began_at))

    @admin.display(description="Stands")
    def stands(self, row: models.ReplayOperation) -> str:
        """Return its state in its colour, and why it is so."""
        return two_lines(stored_badge(OperationState, row.state), column(row.said, 100) if row.said else "")

    @admin.display(description="Come to")
    def progress(self, row: models.ReplayOperation) -> str:
        """Return how many of its letters it has come to, and how many of these were sent."""
        return two_lines(f"{row.position:,} of {row.total:,}", f"{row.sent:,} sent")

    @admin.display(description="Ended")
    def ended(self, row: models.ReplayOperation) -> str:
        """Return how its replays ended."""
        return two_lines(f"{row.resolved:,} well", f"{row.failed:,} failed again")

    @admin.display(description="Who, and why")
    def why(self, row: models.ReplayOperation) -> str:
        """Return who began it, and the reason."""
        return two_lines(column(row.actor, 60), column(row.reason, 120))
