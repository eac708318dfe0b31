"""What jobs and the steward ask of a store."""

from __future__ import annotations

from collections.abc import Sequence

from celery_replay.records import Failure
from celery_replay.states import Category
from celery_replay.stores.base import Store

from ..jobs import Jobs
from .population import Cause
from .questions import Question


def work(store: Store, causes: Sequence[Cause]) -> list[Question]:
    """Ask what they ask."""
    rare = Jobs(store, "shop.tasks.other_task")
    often = Jobs(store, causes[0].operation)
    failure = _failure(causes[0])
    return [
        Question(name="overview", ask=store.overview),
        Question(name="open a job of another task", ask=rare.open),
        Question(name="open and close one", ask=rare.run),
        Question(name="open a job and file its letter in the largest group", ask=lambda: often.fail(failure)),
        Question(name="prune a batch of 500", ask=store.prune),
    ]


def _failure(cause: Cause) -> Failure:
    """Return what a job raises for one of the population's causes."""
    return Failure(
        type=cause.error_type,
        message=cause.text,
        traceback=cause.traceback,
        category=Category.UNCLASSIFIED,
        reason=cause.reason,
        frames=cause.frames,
    )


questions = work
