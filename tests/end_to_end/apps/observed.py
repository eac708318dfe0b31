"""A worker's parent that tells when it knows which child has a job."""

from __future__ import annotations

from typing import Any

from celery_replay.request import ReplayRequest
from tests.end_to_end.apps.killpoints import accepted


class ObservedRequest(ReplayRequest):
    """Tells when the parent has heard from the child that has the job; the job's first argument names it."""

    def on_accepted(self, *args: Any, **kwargs: Any) -> None:
        """Note it, after Celery has."""
        super().on_accepted(*args, **kwargs)
        accepted(str(self.args[0]))
