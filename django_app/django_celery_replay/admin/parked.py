"""The parking lot: deliveries that wait for another job's end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.http import HttpRequest
from django.urls import URLPattern

from celery_replay.records import Row
from celery_replay.states import Outcome, RowStatus

from .. import models
from ..tables import ROWS
from ..text import token
from . import histories, payloads
from .display import NONE, badge, column, dotted, moment, short_moment, shown, stored_badge, stored_word, word
from .filters import ReasonFilter, RowState
from .freeing import FREE, free
from .pages import RecordAdmin
from .permissions import PAYLOAD, TRIAGE, missing
from .reading import LINES, beginning, history, holders, jobs_beginning, one
from .revealing import ReasonForm, reveal


@admin.register(models.ParkedJob)
class ParkedJobAdmin(RecordAdmin):
    """Who waits for whom."""

    table = ROWS
    large = ("message",)
    detail_template = "admin/django_celery_replay/parkedjob.html"
    ordering = ("-parked_at",)
    list_display = ("task", "state", "waits_for", "why", "since", "next_look")
    list_filter = (RowState, ReasonFilter)
    search_help_text = "Submission, or the key, task id or trace id of this job or of the one it waits for."

    def found(self, term: str) -> Q:
        """Search by what names the parked job, and by what names the one that it waits for."""
        jobs = jobs_beginning(term)
        names = beginning(term, "submission", "subject")
        for column_name in ("submission", "subject"):
            names |= Q(**{f"{column_name}__in": jobs.values("submission")})
        return names | Q(subject__in=jobs.filter(claim__isnull=False).values("claim"))

    def complete(self, page: Sequence[Any]) -> None:
        """Find the jobs that are waited for."""
        found = holders([row.subject for row in page])
        for row in page:
            row.holder = found.get(row.subject)

    @admin.display(description="Task")
    def task(self, row: models.ParkedJob) -> str:
        """Return the parked job's task."""
        return dotted(row.operation)

    @admin.display(description="State")
    def state(self, row: models.ParkedJob) -> str:
        """Return the row's station in its colour."""
        return stored_badge(RowStatus, row.status)

    @admin.display(description="Waits for")
    def waits_for(self, row: Any) -> object:
        """Return a link to the job that is waited for."""
        return self._holder_link(row.holder) if row.holder else column(row.subject)

    @admin.display(description="Reason")
    def why(self, row: models.ParkedJob) -> str:
        """Return the reason in words."""
        return stored_word(row.reason)

    @admin.display(description="Parked")
    def since(self, row: models.ParkedJob) -> str:
        """Return since when it waits."""
        return short_moment(row.parked_at)

    @admin.display(description="Looked at again")
    def next_look(self, row: models.ParkedJob) -> str:
        """Return when the steward looks at it again."""
        return short_moment(row.wake_at)

    def get_urls(self) -> list[URLPattern]:
        """Return the pages."""
        return [
            self.door("<path:object_id>/free/", free, "free"),
            self.door("<path:object_id>/reveal/", reveal, "reveal"),
            *super().get_urls(),
        ]

    def details(self, request: HttpRequest, record: Row) -> Mapping[str, Any]:
        """Return a parked delivery's facts and message."""
        payload = not missing(request, PAYLOAD)
        key = self.key(record)
        subject = token(record.subject)
        holder = holders([subject]).get(subject)
        waiting = [
            ("Waits for", self._holder_link(holder) if holder else f"{shown(record.subject)} (no job has it now)"),
            ("Which is now", stored_badge(Outcome, holder.status) if holder else NONE),
            ("Reason", word(record.reason)),
            ("Parked", moment(record.parked_at)),
            ("Looked at again", moment(record.wake_at)),
        ]
        delivery = [
            ("Job", self._own_link(record.submission)),
            ("Delivery", record.generation),
            ("Times parked or released", record.revision),
        ]
        return {
            "headline": (shown(record.operation), badge(record.status)),
            "groups": [("Waiting", waiting), ("This delivery", delivery)],
            "payload": payload,
            "payloads": payloads.message(record.message, record.operation) if payload else [],
            "urls": {name: self.url(name, key) for name in ("free", "reveal")},
            "triage_missing": missing(request, TRIAGE),
            "free_barred": "" if record.status in FREE else f"it is {word(record.status)}",
            "form": ReasonForm(label_suffix=""),
            "history": list(histories.lines(history(submission=record.submission), self)),
            "most": LINES,
        }

    def _holder_link(self, holder: models.ProcessedJob) -> object:
        name = f"{column(holder.operation)} {column(holder.key or holder.submission, 60)}"
        return self.link(models.ProcessedJob, holder.submission, name)

    def _own_link(self, submission: str) -> object:
        row = one(models.ProcessedJob, token(submission), "operation")
        return self.link(models.ProcessedJob, row.pk, shown(submission)) if row else shown(submission)
