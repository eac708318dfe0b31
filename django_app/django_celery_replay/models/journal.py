"""What tells: events, large values, dead letters."""

from __future__ import annotations

from django.db import models

from ..fields import MicrosecondsField, TokenField


class TraceChunk(models.Model):
    """A run of one attempt's events, as they were flushed together. See `celery_replay.records.Chunk`.

    A row per event would cost a job of ten events ten rows with their index entries, more than all else that is
    written for it. Events are read by trace only, so what was flushed together stays one compressed value, and a
    finished job has one or two rows here.
    """

    chunk_id = TokenField(max_length=255, primary_key=True)
    """Nonce and sequence number of the first event."""
    trace_id = TokenField(max_length=255)
    nonce = TokenField(max_length=255)
    first = models.BigIntegerField()
    count = models.IntegerField()
    body = models.BinaryField()
    recorded_at = MicrosecondsField()

    class Meta:
        indexes = [models.Index(fields=["trace_id"], name="replay_chunk_trace")]

    def __str__(self) -> str:
        return str(self.chunk_id)


class Blob(models.Model):
    """A value too large for an event, under the reference that events keep."""

    reference = TokenField(max_length=255, primary_key=True)
    body = models.BinaryField()
    """The value; or a stub, where it is elsewhere."""
    placed = models.BooleanField(null=True)
    """Whether it went elsewhere; nothing where nobody has looked yet."""

    class Meta:
        indexes = [models.Index(fields=["placed"], name="replay_blob_placed")]

    def __str__(self) -> str:
        return str(self.reference)


class PlacedBlob(models.Model):
    """An object outside of the store. See `celery_replay.records.Placed`."""

    name = TokenField(max_length=255, primary_key=True)
    reference = TokenField(max_length=255)
    look_at = MicrosecondsField()

    class Meta:
        indexes = [models.Index(fields=["look_at"], name="replay_placed_due")]

    def __str__(self) -> str:
        return str(self.name)


class BlobUse(models.Model):
    """Which traces have a large value: it goes with the last of them."""

    pair = TokenField(max_length=255, primary_key=True)
    """Reference and trace: Django's older versions have no key of two columns."""
    reference = TokenField(max_length=255)
    trace_id = TokenField(max_length=255)

    class Meta:
        indexes = [
            models.Index(fields=["reference"], name="replay_use_blob"),
            models.Index(fields=["trace_id"], name="replay_use_trace"),
        ]

    def __str__(self) -> str:
        return str(self.pair)


class DeadLetter(models.Model):
    """A job that needs a human decision. See `celery_replay.records.Letter`."""

    submission = TokenField(max_length=255, primary_key=True)
    operation = TokenField(max_length=255)
    task_id = TokenField(max_length=255)
    trace_id = TokenField(max_length=255)
    correlation_id = TokenField(max_length=255)
    key = TokenField(max_length=500)
    generation = models.BigIntegerField()
    state = TokenField(max_length=32)
    reason = TokenField(max_length=32)
    category = TokenField(max_length=32)
    error_type = TokenField(max_length=255)
    error_message = models.TextField()
    traceback = models.TextField()
    group_id = TokenField(max_length=64, default="")
    frames = models.TextField(default="")
    effect = TokenField(max_length=32, default="unknown")
    attempts = models.IntegerField()
    first_seen = MicrosecondsField()
    last_failed = MicrosecondsField()
    resolved_how = TokenField(max_length=255)
    assignee = TokenField(max_length=150, default="")
    worker = TokenField(max_length=255)
    code_version = TokenField(max_length=255)
    message = models.BinaryField()
    edited = models.BinaryField(null=True)
    replay = TokenField(max_length=255, default="")
    operation_id = TokenField(max_length=64, default="")
    replays = models.IntegerField(default=0)
    revision = models.IntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(fields=["last_failed"], name="replay_letter_newest"),
            models.Index(fields=["state", "last_failed"], name="replay_letter_state"),
            models.Index(fields=["operation", "last_failed"], name="replay_letter_task"),
            models.Index(fields=["group_id", "last_failed"], name="replay_letter_group"),
            models.Index(fields=["reason", "last_failed"], name="replay_letter_reason"),
            models.Index(fields=["effect", "last_failed"], name="replay_letter_effect"),
            models.Index(fields=["operation_id", "last_failed"], name="replay_letter_operation"),
            models.Index(fields=["assignee", "last_failed"], name="replay_letter_assignee"),
        ]
        permissions = [
            ("triage_deadletter", "Can assign, note, quarantine, edit and discard dead letters"),
            ("replay_deadletter", "Can replay dead letters for real"),
            ("dry_run_deadletter", "Can let a worker dry-run and fork dead letters"),
        ]

    def __str__(self) -> str:
        return f"{self.operation} {self.submission}: {self.reason}"


class LetterGroup(models.Model):
    """Dead letters with one cause. See `celery_replay.records.Group`."""

    group_id = TokenField(max_length=64, primary_key=True)
    operation = TokenField(max_length=255)
    reason = TokenField(max_length=32)
    error_type = TokenField(max_length=255)
    frames = models.TextField()
    error_message = models.TextField()
    newest = TokenField(max_length=255)
    filed = models.BigIntegerField()
    unresolved = models.BigIntegerField()
    first_seen = MicrosecondsField()
    last_seen = MicrosecondsField()

    class Meta:
        indexes = [models.Index(fields=["last_seen"], name="replay_group_newest")]

    def __str__(self) -> str:
        return f"{self.operation}: {self.error_type or self.reason}"


class UncountedLetter(models.Model):
    """A letter that was filed while others counted in its group: its group as it would be with this letter alone.

    Who files a letter does not wait for the row that all letters of one cause want.
    """

    newest = TokenField(max_length=255, primary_key=True)
    group_id = TokenField(max_length=64)
    operation = TokenField(max_length=255)
    reason = TokenField(max_length=32)
    error_type = TokenField(max_length=255)
    frames = models.TextField()
    error_message = models.TextField()
    filed = models.BigIntegerField()
    unresolved = models.BigIntegerField()
    first_seen = MicrosecondsField()
    last_seen = MicrosecondsField()

    def __str__(self) -> str:
        return str(self.newest)


class LetterTrend(models.Model):
    """How many letters a group got in an hour."""

    bar = TokenField(max_length=96, primary_key=True)
    """Group and hour: Django's older versions have no key of two columns."""
    group_id = TokenField(max_length=64)
    hour = MicrosecondsField()
    filed = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["group_id", "hour"], name="replay_trend_group")]

    def __str__(self) -> str:
        return str(self.bar)


class HistoryEntry(models.Model):
    """Who did what to a letter, a group or a parked job. See `celery_replay.records.HistoryEntry`."""

    entry_id = TokenField(max_length=64, primary_key=True)
    at = MicrosecondsField()
    verb = TokenField(max_length=32)
    actor = TokenField(max_length=150)
    submission = TokenField(max_length=255)
    group_id = TokenField(max_length=64)
    operation_id = TokenField(max_length=64)
    text = models.TextField()
    details = models.TextField()

    class Meta:
        indexes = [
            models.Index(fields=["submission", "at"], name="replay_history_job"),
            # What is noted about a group as a whole has no submission, and may stand among a hundred thousand others.
            models.Index(fields=["group_id", "submission", "at"], name="replay_history_notes"),
            models.Index(fields=["operation_id", "at"], name="replay_history_operation"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} by {self.actor or 'nobody'}"
