"""Jobs: what ran, how it ended, and how it went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Model, Q
from django.http import HttpRequest

from celery_replay.clock import SECOND
from celery_replay.records import Job
from celery_replay.states import Outcome

from .. import models
from ..tables import JOBS
from ..text import token
from . import payloads, timelines
from .display import NONE, badge, column, dotted, lasting, short_moment, shown, stored_badge, stored_word
from .facts import Group, attempt_lines, evidence, failure, ownership, step_lines, timing
from .filters import JobStatus, TaskFilter, TimeFilter
from .pages import RecordAdmin
from .permissions import PAYLOAD, missing
from .reading import EVENTS_SHOWN, LINES, attempts, beginning, one, steps


@admin.register(models.ProcessedJob)
class ProcessedJobAdmin(RecordAdmin):
    """Every submission that a worker has seen."""

    table = JOBS
    large = ("message", "result", "failure")
    detail_template = "admin/django_celery_replay/processedjob.html"
    ordering = ("-started_at",)
    list_display = ("task", "state", "idempotency_key", "started", "duration", "attempts", "on_worker")
    list_filter = (JobStatus, TaskFilter, TimeFilter)
    search_help_text = "Key, task id, trace id or submission, or what it begins with."

    def found(self, term: str) -> Q:
        """Search all that names a job, by its index."""
        return beginning(term, "submission", "task_id", "trace_id", "key")

    @admin.display(description="Task")
    def task(self, row: models.ProcessedJob) -> str:
        """Return the task's name."""
        return dotted(row.operation)

    @admin.display(description="Status")
    def state(self, row: models.ProcessedJob) -> str:
        """Return the status in its colour."""
        return stored_badge(Outcome, row.status)

    @admin.display(description="Key")
    def idempotency_key(self, row: models.ProcessedJob) -> str:
        """Return the idempotency key."""
        return column(row.key, 60)

    @admin.display(description="Started")
    def started(self, row: models.ProcessedJob) -> str:
        """Return when the latest attempt began."""
        return short_moment(row.started_at)

    @admin.display(description="Duration")
    def duration(self, row: models.ProcessedJob) -> str:
        """Return how long the latest attempt took."""
        if row.closed_at is None:
            return NONE
        return lasting(round((row.closed_at - row.started_at).total_seconds() * SECOND))

    @admin.display(description="Worker")
    def on_worker(self, row: models.ProcessedJob) -> str:
        """Return who had it last."""
        return column(row.worker, 60)

    def details(self, request: HttpRequest, record: Job) -> Mapping[str, Any]:
        """Return a job's facts, attempts, steps and timeline."""
        payload = not missing(request, PAYLOAD)
        tries = attempts(record.submission)
        lines = timelines.draw(record, tries, payload=payload)
        return {
            "headline": (shown(record.operation), badge(record.status)),
            "groups": [self._identity(record), timing(record), ownership(record), self._outcome(record)],
            "attempts": attempt_lines(tries),
            "steps": step_lines(steps(record.identity), payload),
            "lines": lines,
            "cut": len(lines) == EVENTS_SHOWN,
            "most": LINES,
            "payload": payload,
            "payloads": [payloads.value("Result", record.result)] if payload else [],
        }

    def _identity(self, job: Job) -> Group:
        return "Identity", [
            ("Task id", shown(job.task_id)),
            ("Submission", shown(job.submission)),
            ("Idempotency key", shown(job.key) or NONE),
            ("Trace", shown(job.trace_id)),
            ("Correlation", shown(job.correlation_id)),
            ("Published by", self._job_link(job.causation_id)),
            ("Delivery", job.generation),
        ]

    def _outcome(self, job: Job) -> Group:
        return "Outcome", [
            ("Status", badge(job.status)),
            ("Attempts", job.attempts),
            *failure(job),
            ("Result taken from", self._job_link(job.origin)),
            ("Replays the letter", self._letter_link(job.original)),
            *evidence(job),
            ("Dead letter", self._other(models.DeadLetter, job, "state")),
            ("Parked", self._other(models.ParkedJob, job, "status")),
        ]

    def _job_link(self, submission: str | None) -> object:
        if submission is None:
            return NONE
        return self.link(models.ProcessedJob, token(submission), shown(submission))

    def _letter_link(self, submission: str | None) -> object:
        return NONE if submission is None else self.link(models.DeadLetter, token(submission), shown(submission))

    def _other(self, model: type[Model], job: Job, state: str) -> object:
        row = one(model, token(job.submission), state)
        return "no" if row is None else self.link(model, row.pk, stored_word(getattr(row, state)))
