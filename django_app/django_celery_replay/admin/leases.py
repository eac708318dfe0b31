"""Leases on resources: who has what, who waits, and who had it before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import URLPattern

from celery_replay.leases import taken
from celery_replay.records import Lease
from celery_replay.stores.lease_looks import Holder

from .. import models
from ..conf import store
from ..tables import LEASES
from ..text import token
from . import histories
from .display import NONE, column, dotted, label, lasting, moment, short_moment, shown, word
from .freeing import release
from .pages import RecordAdmin
from .permissions import TRIAGE, missing
from .reading import LINES, beginning, history, jobs_beginning, one


@admin.register(models.ResourceLease)
class ResourceLeaseAdmin(RecordAdmin):
    """Who has which resource."""

    table = LEASES
    detail_template = "admin/django_celery_replay/resourcelease.html"
    ordering = ("-until",)
    list_display = ("name", "task", "holder", "since", "lapses", "token")
    search_help_text = "Resource, or the submission, key, task id or trace id of the job that has it."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the leases that somebody has."""
        held: QuerySet[Any] = super().get_queryset(request).filter(until__isnull=False)
        return held

    def found(self, term: str) -> Q:
        """Search by the resource, and by what names the job that has it."""
        return beginning(term, "resource", "submission") | Q(submission__in=jobs_beginning(term).values("submission"))

    @admin.display(description="Resource")
    def name(self, row: models.ResourceLease) -> str:
        """Return the resource."""
        return column(row.resource)

    @admin.display(description="Task")
    def task(self, row: models.ResourceLease) -> str:
        """Return the holder's task."""
        return dotted(row.operation)

    @admin.display(description="Job")
    def holder(self, row: models.ResourceLease) -> object:
        """Return a link to the holder."""
        return self.link(models.ProcessedJob, row.submission, column(row.submission, 40))

    @admin.display(description="Since")
    def since(self, row: models.ResourceLease) -> str:
        """Return when it was taken."""
        return short_moment(row.acquired_at)

    @admin.display(description="Lapses, unless renewed")
    def lapses(self, row: models.ResourceLease) -> str:
        """Return when it lapses."""
        return short_moment(row.until)

    @admin.display(description="Fence")
    def token(self, row: models.ResourceLease) -> int:
        """Return its token."""
        return row.fence

    def get_urls(self) -> list[URLPattern]:
        """Return the pages."""
        return [self.door("<path:object_id>/release/", release, "release"), *super().get_urls()]

    def details(self, request: HttpRequest, record: Lease) -> Mapping[str, Any]:
        """Return a lease's holder, its line, and its last holders."""
        found, now = store(), store().now()
        alive = taken(record, now)
        usual = found.usual_hold(record.operation)
        state = label("good", "▶", "alive") if alive else label("fail", "✗", "has gone silent")
        held: list[tuple[str, object]] = [
            ("Job", self._job_link(record.submission)),
            ("Which", state),
            ("Since", moment(record.acquired_at)),
            ("For", lasting(now - record.acquired_at)),
            ("Usual for its task", NONE if usual is None else f"up to {lasting(usual)}"),
            ("Lapses, unless renewed", moment(record.until)),
            ("Worker", f"{shown(record.worker)} / {record.pid}"),
        ]
        line = [(number, self._job_link(row.submission)) for number, row in enumerate(found.line(record.resource), 1)]
        about: list[tuple[str, object]] = [("Newest fence", record.fence), ("Kept until", moment(record.keep_until))]
        return {
            "headline": (shown(record.resource), ""),
            "groups": [("Held by", held if record.nonce else [("Nobody", NONE)]), ("Waiting", line), ("Lease", about)],
            "holders": [self._holder(one_of) for one_of in found.holders(record.resource)],
            "urls": {"release": self.url("release", self.key(record))},
            "triage_missing": missing(request, TRIAGE),
            "release_barred": self._barred(record, alive=alive),
            "history": list(histories.lines(history(submission=record.submission), self)),
            "most": LINES,
        }

    @staticmethod
    def _barred(record: Lease, *, alive: bool) -> str:
        if not record.nonce:
            return "nobody has it"
        return "its holder is alive; the command line can force it" if alive else ""

    def _holder(self, holder: Holder) -> Mapping[str, object]:
        holding = holder.holding
        return {
            "fence": holding.fence,
            "task": shown(holding.operation),
            "job": self._job_link(holding.submission),
            "acquired": moment(holding.acquired_at),
            "ended": moment(holding.ended_at),
            "end": word(holding.end),
            "overlaps": ", ".join(map(str, holder.overlaps)),
        }

    def _job_link(self, submission: str) -> object:
        row = one(models.ProcessedJob, token(submission), "operation")
        return self.link(models.ProcessedJob, row.pk, shown(submission)) if row else shown(submission)
