"""Dead letters: jobs that need somebody's decision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest

from celery_replay.records import Job, Letter
from celery_replay.redaction import redact_text
from celery_replay.states import LetterState

from .. import models
from ..tables import JOBS, LETTERS
from ..text import token
from . import payloads
from .display import NONE, badge, column, moment, short_moment, shown, stored_badge, stored_word, word
from .facts import Group, attempt_lines, evidence, step_lines
from .filters import LetterStates, ReasonFilter
from .pages import RecordAdmin
from .reading import LINES, attempts, jobs_beginning, one, steps


@admin.register(models.DeadLetter)
class DeadLetterAdmin(RecordAdmin):
    """What failed for good, was lost, or was refused."""

    table = LETTERS
    large = ("message", "traceback", "error_message")
    detail_template = "admin/django_celery_replay/deadletter.html"
    ordering = ("-last_failed",)
    list_display = ("task", "triage", "why", "error", "said", "attempts", "first", "last")
    list_filter = (LetterStates, ReasonFilter)
    search_help_text = "Submission, or its job's key, task id or trace id, or what it begins with."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows of a list, with the beginning of each error's message."""
        rows: QuerySet[Any] = super().get_queryset(request).annotate(message_begins=Left("error_message", 200))
        return rows

    def found(self, term: str) -> Q:
        """Search by the indexes of the jobs, and by the letters' own."""
        # Not the letters' own submissions besides: no database would answer that by an index.
        return Q(submission__in=jobs_beginning(term).values("submission"))

    @admin.display(description="Task")
    def task(self, row: models.DeadLetter) -> str:
        """Return the task's name."""
        return column(row.operation)

    @admin.display(description="State")
    def triage(self, row: models.DeadLetter) -> str:
        """Return the state in its colour."""
        return stored_badge(LetterState, row.state)

    @admin.display(description="Reason")
    def why(self, row: models.DeadLetter) -> str:
        """Return the reason in words."""
        return stored_word(row.reason)

    @admin.display(description="Error")
    def error(self, row: models.DeadLetter) -> str:
        """Return the exception's class, without its module."""
        return column(row.error_type.rpartition(".")[2])

    @admin.display(description="Message")
    def said(self, row: Any) -> str:
        """Return the beginning of the error's message."""
        return column(row.message_begins, 100)

    @admin.display(description="First seen")
    def first(self, row: models.DeadLetter) -> str:
        """Return when it failed first."""
        return short_moment(row.first_seen)

    @admin.display(description="Last failed")
    def last(self, row: models.DeadLetter) -> str:
        """Return when it failed last."""
        return short_moment(row.last_failed)

    def details(self, record: Letter, payload: bool) -> Mapping[str, Any]:
        """Return a letter's facts, evidence and message."""
        row = one(models.ProcessedJob, token(record.submission))
        job = None if row is None else JOBS.record_of(row)
        return {
            "headline": (shown(record.operation), badge(record.state)),
            "groups": [self._failure(record), self._origin(record, known=job is not None), _evidence(job)],
            "traceback": shown(redact_text(record.traceback)),
            "attempts": attempt_lines(attempts(record.submission)),
            "steps": step_lines(steps(job.identity if job else record.submission), payload),
            "most": LINES,
            "payload": payload,
            "payloads": payloads.message(record.message, record.operation) if payload else [],
        }

    def _failure(self, letter: Letter) -> Group:
        return "Failure", [
            ("Reason", word(letter.reason)),
            ("Category", word(letter.category)),
            ("Error", shown(letter.error_type) or NONE),
            ("Message", shown(redact_text(letter.error_message), 1_000) or NONE),
            ("Attempts", letter.attempts),
            ("First seen", moment(letter.first_seen)),
            ("Last failed", moment(letter.last_failed)),
            ("Resolved by", shown(word(letter.resolved_how)) or NONE),
        ]

    def _origin(self, letter: Letter, *, known: bool) -> Group:
        submission = shown(letter.submission)
        job = self.link(models.ProcessedJob, token(letter.submission), submission) if known else submission
        return "Origin", [
            ("Job and its trace", job),
            ("Task id", shown(letter.task_id)),
            ("Idempotency key", shown(letter.key) or NONE),
            ("Trace", shown(letter.trace_id)),
            ("Correlation", shown(letter.correlation_id)),
            ("Delivery", letter.generation),
            ("Worker", shown(letter.worker) or NONE),
            ("Code version", shown(letter.code_version) or NONE),
        ]


def _evidence(job: Job | None) -> Group:
    if job is None:
        return "Evidence", [("Job", "no record is left of it")]
    return "Evidence", [("The job is now", badge(job.status)), *evidence(job)]
