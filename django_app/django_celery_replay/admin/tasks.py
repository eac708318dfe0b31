"""The project's tasks, as this web process knows them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable

from celery_replay.exceptions import ConfigurationError
from celery_replay.logs import logger_of
from celery_replay.runtime import Runtime

from ..conf import runtime, store

logger = logger_of(__name__)
_importing = threading.Lock()
_imported: weakref.WeakSet[Runtime] = weakref.WeakSet()


def runtime_that_knows(operations: Iterable[str]) -> Runtime:
    """Return the Celery app's runtime, with these tasks imported as far as they are to be found.

    A web process may have imported none: Celery looks for them when a worker starts.

    Raises:
        ConfigurationError: no Celery app is loaded here, or one with another store.
    """
    known = runtime()
    if known is None:
        raise ConfigurationError(
            "this web process has no Celery app, so it can send nothing; import the app in the project's __init__.py, "
            "as Celery's guide for Django has it"
        )
    if known.store is not store():
        raise ConfigurationError(
            f"this web process's Celery app keeps its records elsewhere, in {known.store.place}; "
            "see that it has the project's settings"
        )
    if any(name not in known.app.tasks for name in operations):
        _import_tasks(known)
    return known


def _import_tasks(known: Runtime) -> None:
    with _importing:
        if known in _imported:
            return
        _imported.add(known)
        try:
            known.app.loader.import_default_modules()
        except Exception:
            # A module that can't be imported is no reason to fail for the tasks of all others.
            logger.warning("replay.tasks_not_imported", exc_info=True)
