"""Who may work on what: leases on resources, their former holders, and who stands in line."""

from __future__ import annotations

from django.db import models

from ..fields import MicrosecondsField, TokenField


class ResourceLease(models.Model):
    """The lease on a resource. See `celery_replay.records.Lease`."""

    resource = TokenField(max_length=255, primary_key=True)
    fence = models.BigIntegerField()
    nonce = TokenField(max_length=255)
    submission = TokenField(max_length=255)
    operation = TokenField(max_length=255)
    trace_id = TokenField(max_length=255)
    worker = TokenField(max_length=255)
    pid = models.BigIntegerField()
    acquired_at = MicrosecondsField()
    until = MicrosecondsField(null=True)
    grants = models.BigIntegerField()
    waiters = models.BooleanField()
    keep_until = MicrosecondsField()

    class Meta:
        indexes = [
            # Only a lease that somebody has lapses: those are few among all that are kept.
            models.Index(fields=["until"], name="replay_lease_until"),
            models.Index(fields=["keep_until"], name="replay_lease_keep"),
            models.Index(fields=["submission"], name="replay_lease_job"),
        ]

    def __str__(self) -> str:
        return f"{self.resource}: {self.operation} {self.submission}" if self.nonce else f"{self.resource}: free"


class LeaseHolding(models.Model):
    """A lease that ended. See `celery_replay.records.Holding`."""

    holding_id = TokenField(max_length=64, primary_key=True)
    resource = TokenField(max_length=255)
    grant = models.BigIntegerField()
    fence = models.BigIntegerField()
    nonce = TokenField(max_length=255)
    submission = TokenField(max_length=255)
    operation = TokenField(max_length=255)
    trace_id = TokenField(max_length=255)
    worker = TokenField(max_length=255)
    pid = models.BigIntegerField()
    acquired_at = MicrosecondsField()
    ended_at = MicrosecondsField()
    end = TokenField(max_length=32)

    class Meta:
        indexes = [
            models.Index(fields=["resource", "grant"], name="replay_holding_resource"),
            # How long a task has a resource as a rule.
            models.Index(fields=["operation", "ended_at"], name="replay_holding_task"),
            models.Index(fields=["submission"], name="replay_holding_job"),
        ]

    def __str__(self) -> str:
        return f"{self.resource}: {self.operation} {self.submission}, {self.end}"


class LeaseWaiter(models.Model):
    """A parked job's place in line. See `celery_replay.records.Waiter`."""

    waiter_id = TokenField(max_length=32, primary_key=True)
    resource = TokenField(max_length=255)
    submission = TokenField(max_length=255)
    since = MicrosecondsField()

    class Meta:
        indexes = [
            models.Index(fields=["resource", "since", "submission"], name="replay_waiter_line"),
            models.Index(fields=["submission"], name="replay_waiter_job"),
        ]

    def __str__(self) -> str:
        return f"{self.submission} waits for {self.resource}"
