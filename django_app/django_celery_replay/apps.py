"""The Django app."""

from __future__ import annotations

from django.apps import AppConfig


class DjangoCeleryReplayConfig(AppConfig):
    """Models, checks and commands of celery-replay."""

    name = "django_celery_replay"
    verbose_name = "Celery replay"

    def ready(self) -> None:
        """Register the system checks, and have workers look at their tasks."""
        from celery.signals import celeryd_after_setup

        from . import checks, foreign  # noqa: F401

        celeryd_after_setup.connect(foreign.warn, dispatch_uid="django_celery_replay.foreign")
