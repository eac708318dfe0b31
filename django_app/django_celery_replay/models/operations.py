"""Operations: the replay of many dead letters, and which letters these are."""

from __future__ import annotations

from django.db import models

from ..fields import MicrosecondsField, TokenField


class ReplayOperation(models.Model):
    """The replay of many dead letters. See `celery_replay.records.Operation`."""

    operation_id = TokenField(max_length=64, primary_key=True)
    actor = TokenField(max_length=150)
    reason = models.TextField()
    state = TokenField(max_length=32)
    said = models.TextField()
    options = models.TextField()
    began_at = MicrosecondsField()
    changed_at = MicrosecondsField()
    total = models.IntegerField()
    position = models.IntegerField()
    sent = models.IntegerField()
    left_out = models.IntegerField()
    resolved = models.IntegerField()
    failed = models.IntegerField()
    gone = models.IntegerField()
    tried = models.IntegerField()
    bad = models.IntegerField()
    proven = models.BooleanField()
    recent = models.TextField()
    pending = models.TextField()
    due_at = MicrosecondsField()
    keep_us = models.BigIntegerField()
    revision = models.IntegerField()
    active = models.BooleanField()
    keep_until = MicrosecondsField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["began_at"], name="replay_operation_newest"),
            models.Index(fields=["active", "began_at"], name="replay_operation_active"),
            models.Index(fields=["keep_until"], name="replay_operation_keep"),
        ]

    def __str__(self) -> str:
        return f"{self.operation_id}: {self.state}"


class OperationPortion(models.Model):
    """Some of an operation's letters, as they were when it began. See `celery_replay.records.Portion`."""

    portion_id = TokenField(max_length=96, primary_key=True)
    operation_id = TokenField(max_length=64)
    number = models.IntegerField()
    body = models.BinaryField()

    class Meta:
        indexes = [models.Index(fields=["operation_id"], name="replay_portion_operation")]

    def __str__(self) -> str:
        return str(self.portion_id)
