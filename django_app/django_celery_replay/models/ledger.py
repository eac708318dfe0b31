"""What decides: jobs, attempts, steps, the parking lot."""

from __future__ import annotations

from django.db import models

from ..fields import MicrosecondsField, TokenField


class ProcessedJob(models.Model):
    """One submission: one publish by a user's code. See `celery_replay.records.Job`."""

    submission = TokenField(max_length=255, primary_key=True)
    operation = TokenField(max_length=255)
    task_id = TokenField(max_length=255)
    trace_id = TokenField(max_length=255)
    correlation_id = TokenField(max_length=255)
    causation_id = TokenField(max_length=255, null=True)
    key = TokenField(max_length=500)
    claim = TokenField(max_length=255, null=True, unique=True)
    fingerprint = TokenField(max_length=255, null=True)
    generation = models.BigIntegerField()
    status = TokenField(max_length=32)
    nonce = TokenField(max_length=255)
    fence = models.BigIntegerField()
    lease_until = MicrosecondsField(null=True)
    reserved_until = MicrosecondsField(null=True)
    canvas_advanced = models.BooleanField()
    canvas_until = MicrosecondsField(null=True)
    unsettled = models.BooleanField()
    attempts = models.IntegerField()
    strikes = models.IntegerField()
    waiters = models.BooleanField()
    letter = models.BooleanField()
    ack = TokenField(max_length=32)
    redelivery_us = models.BigIntegerField()
    message = models.BinaryField(null=True)
    canvas_unknown = models.BooleanField()
    result = models.TextField(null=True)
    result_lost = models.BooleanField()
    failure = models.TextField(null=True)
    origin = TokenField(max_length=255, null=True)
    original = TokenField(max_length=255, null=True)
    worker = TokenField(max_length=255)
    pid = models.BigIntegerField()
    published_at = MicrosecondsField(null=True)
    started_at = MicrosecondsField()
    closed_at = MicrosecondsField(null=True)
    keep_until = MicrosecondsField(null=True)
    reap_at = MicrosecondsField(null=True)
    """`Job.reap_at`, kept as a column so that the reaper can look for it."""

    class Meta:
        indexes = [
            models.Index(fields=["reap_at"], name="replay_job_reap"),
            models.Index(fields=["letter", "keep_until"], name="replay_job_keep"),
            models.Index(fields=["task_id"], name="replay_job_task"),
            models.Index(fields=["key", "started_at"], name="replay_job_key"),
            models.Index(fields=["trace_id"], name="replay_job_trace"),
            # For people who look at the newest jobs; without it each look would sort the whole table.
            models.Index(fields=["started_at"], name="replay_job_newest"),
        ]
        permissions = [("view_payload", "Can view payloads and results")]

    def __str__(self) -> str:
        return f"{self.operation} {self.submission}"


class Attempt(models.Model):
    """How one execution ended. See `celery_replay.records.AttemptRecord`."""

    nonce = TokenField(max_length=255, primary_key=True)
    submission = TokenField(max_length=255)
    trace_id = TokenField(max_length=255)
    operation = TokenField(max_length=255)
    generation = models.BigIntegerField()
    outcome = TokenField(max_length=32)
    fence = models.BigIntegerField()
    worker = TokenField(max_length=255)
    pid = models.BigIntegerField()
    started_at = MicrosecondsField()
    ended_at = MicrosecondsField()
    note = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["submission", "started_at"], name="replay_attempt_job")]

    def __str__(self) -> str:
        return f"{self.operation} {self.nonce}: {self.outcome}"


class StepRecord(models.Model):
    """A side-effect step. See `celery_replay.records.StepRecord`."""

    step_id = TokenField(max_length=32, primary_key=True)
    """Digest of scope and key: a user's keys may be longer than an index takes."""
    scope = TokenField(max_length=255)
    key = models.TextField()
    name = TokenField(max_length=255)
    state = TokenField(max_length=32)
    nonce = TokenField(max_length=255)
    output = models.TextField(null=True)
    claimed_at = MicrosecondsField()

    class Meta:
        indexes = [models.Index(fields=["scope"], name="replay_step_scope")]

    def __str__(self) -> str:
        return f"{self.name} {self.key}: {self.state}"


class ParkedJob(models.Model):
    """A delivery in the parking lot. See `celery_replay.records.Row`."""

    submission = TokenField(max_length=255, primary_key=True)
    operation = TokenField(max_length=255)
    generation = models.BigIntegerField()
    status = TokenField(max_length=32)
    revision = models.IntegerField()
    subject = TokenField(max_length=255)
    reason = TokenField(max_length=32)
    wake_at = MicrosecondsField()
    parked_at = MicrosecondsField()
    message = models.BinaryField()
    releases = models.IntegerField(default=0)
    requeues = models.IntegerField(default=0)
    contended_since = MicrosecondsField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["subject", "status", "parked_at"], name="replay_parked_behind"),
            models.Index(fields=["wake_at", "parked_at"], name="replay_parked_due"),
            models.Index(fields=["parked_at"], name="replay_parked_age"),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.submission}: {self.status}"


class Lead(models.Model):
    """A store-wide lease: which steward leads."""

    name = TokenField(max_length=64, primary_key=True)
    nonce = TokenField(max_length=255)
    until = MicrosecondsField()

    def __str__(self) -> str:
        return f"{self.name}: {self.nonce}"


class SchemaInfo(models.Model):
    """The version of the records, written by the migrations."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    version = models.PositiveIntegerField()

    def __str__(self) -> str:
        return str(self.version)
