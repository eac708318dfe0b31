"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig


class DjangoCeleryReplayConfig(AppConfig):
    """Models, checks and commands of celery-replay."""

    name = "django_celery_replay"
    verbose_name = "Celery replay"

    def ready(self) -> None:
        """Register the system checks."""
        from . import checks  # noqa: F401
