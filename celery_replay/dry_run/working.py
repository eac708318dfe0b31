"""The task by which a worker does dry runs; a plain one of Celery's, so that nothing of it is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery import Task

from ..exceptions import ReplayError
from ..logs import logger_of
from ..runtime import runtime_of
from ..tracebacks import name_of
from . import errand, trials
from .orders import TASK, Order

logger = logger_of(__name__)


def register(app: Any) -> None:
    """Make it known to a worker's app; done before its pool starts."""
    if TASK not in app.tasks:
        app.task(_try, name=TASK, base=Task, bind=True, shared=False, lazy=False, acks_late=True, ignore_result=True)


def _try(self: Any, order: Mapping[str, Any], **_: Any) -> None:
    """Do what is asked for; where that can't be done, the letters' histories say why."""
    wanted = Order.unpack(order)
    try:
        errand.run(errand.name_of(self.app), wanted)
    except Exception as error:
        # Whatever it is: somebody waits for an answer, and the message must not come again.
        logger.warning("replay.trial_failed", exc_info=True)
        why = error.message if isinstance(error, ReplayError) else f"it could not be done: {name_of(error)}: {error}"
        trials.refuse(runtime_of(self.app).store, wanted, why)
