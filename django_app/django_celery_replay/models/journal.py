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

    def __str__(self) -> str:
        return str(self.reference)


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
    attempts = models.IntegerField()
    first_seen = MicrosecondsField()
    last_failed = MicrosecondsField()
    resolved_how = TokenField(max_length=255)
    worker = TokenField(max_length=255)
    code_version = TokenField(max_length=255)
    message = models.BinaryField()

    class Meta:
        indexes = [models.Index(fields=["last_failed"], name="replay_letter_newest")]

    def __str__(self) -> str:
        return f"{self.operation} {self.submission}: {self.reason}"
