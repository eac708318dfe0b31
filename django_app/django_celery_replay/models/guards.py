"""What guards effects in the business database, inside the effect's own transaction.

A router that keeps this app in a database of its own must let these two models through to every database that a task
names in `atomic=` or `fenced=`:

    def allow_migrate(self, db, app_label, model_name=None, **hints):
        if app_label == "django_celery_replay" and model_name in {"fence", "marker"}:
            return True
"""

from __future__ import annotations

from django.db import models

from ..fields import MicrosecondsField, TokenField


class Fence(models.Model):
    """The newest owner's token that a guarded name has seen."""

    name = TokenField(max_length=255, primary_key=True)
    token = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.name}: {self.token}"


class Marker(models.Model):
    """An effect that is committed, or is about to be in the same transaction."""

    identity = TokenField(max_length=255, primary_key=True)
    nonce = TokenField(max_length=255)
    result = models.TextField(null=True)
    """The return value as JSON."""
    marked_at = MicrosecondsField()

    class Meta:
        indexes = [models.Index(fields=["marked_at"], name="replay_marker_age")]

    def __str__(self) -> str:
        return str(self.identity)
