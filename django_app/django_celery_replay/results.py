"""Celery's results in Django's database: `result_backend = "django_celery_replay.results:DatabaseBackend"`.

A subclass of django-celery-results' backend, on its tables. That package is optional, and only this module imports it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from celery import states
from django.db import IntegrityError, InterfaceError, OperationalError, connections, router, transaction
from django.db.models.functions import Now
from django.utils import timezone
from django_celery_results.backends import DatabaseBackend as StockBackend

_PAUSES = (0.05, 0.2, 0.5)
"""Seconds between tries, where a database refuses a step for a moment: a lock, a deadlock, a lost connection."""


class DatabaseBackend(StockBackend):
    """Stores results such that late news of an older attempt changes nothing."""

    def _store_result(
        self,
        task_id: str,
        result: Any,
        status: str,
        traceback: str | None = None,
        request: Any = None,
        using: str | None = None,
    ) -> Any:
        content_type, content_encoding, encoded = self.encode_content(result)
        meta = {**self._get_meta_from_request(request), "children": self.current_task_children(request)}
        fields = {
            "status": status,
            "result": encoded,
            "traceback": traceback,
            "meta": self.encode_content(meta)[2],
            "content_type": content_type,
            "content_encoding": content_encoding,
            **self._get_extended_properties(request, traceback),
        }
        if status == states.STARTED:
            fields["date_started"] = Now()
        alias = using or router.db_for_write(self.TaskModel)
        patiently(alias, partial(self._write, alias, task_id, fields))
        return encoded

    def _write(self, alias: str, task_id: str, fields: dict[str, Any]) -> None:
        """Write a state, unless there is one that stays: a SUCCESS, or any end where this is none."""
        stays = (states.SUCCESS,) if fields["status"] in states.READY_STATES else tuple(states.READY_STATES)
        rows = self.TaskModel._default_manager.using(alias)
        replaceable = rows.filter(task_id=task_id).exclude(status__in=stays)
        changes = {**fields, "date_done": timezone.now()}
        if replaceable.update(**changes):
            return
        try:
            with transaction.atomic(using=alias):
                rows.create(task_id=task_id, **fields)
        except IntegrityError:
            # There is one that stays; or somebody wrote the task's first state since we looked.
            replaceable.update(**changes)


def patiently(alias: str, step: Callable[[], None]) -> None:
    """Take a step of a database again that was refused for a moment; inside of a transaction it can't be."""
    for pause in _PAUSES:
        try:
            return step()
        except (OperationalError, InterfaceError):
            connection = connections[alias]
            if connection.in_atomic_block:
                raise
            connection.close_if_unusable_or_obsolete()
            time.sleep(pause)
    return step()
