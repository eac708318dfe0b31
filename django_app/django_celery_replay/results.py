"""Celery's results in Django's database: `result_backend = "django_celery_replay.results:DatabaseBackend"`.

A subclass of django-celery-results' backend, on its tables. That package is optional, and only this module imports it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from celery import chord, maybe_signature, states
from celery.exceptions import ChordError, SoftTimeLimitExceeded
from django.db import DatabaseError, IntegrityError, InterfaceError, OperationalError, connections, router, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django_celery_results.backends import DatabaseBackend as StockBackend
from django_celery_results.models import ChordCounter

from celery_replay.logs import logger_of
from celery_replay.signal_handlers import sending

from .chord_parts import Part, chords_of, gathered, outer_parts, task_ids, under

logger = logger_of(__name__)

_PAUSES = (0.05, 0.2, 0.5)
"""Seconds between tries, where a database refuses a step for a moment: a lock, a deadlock, a lost connection."""
_CHUNK = 500
"""How many task ids one query asks for, at most."""


class DatabaseBackend(StockBackend):
    """Stores results such that late news of an older attempt changes nothing, and ends each chord once.

    A chord's parts are counted by task id: it is complete when each of its members has an end in the table of results.
    Whoever stores an end looks afterwards whether one is missing, so that the last one finds none, and sends the body
    under a lock of the chord's row. That row goes in the same transaction: after a crash the member's redelivery finds
    it and sends the body again, under its frozen id.
    """

    # States

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
        _patiently(alias, partial(self._write, alias, task_id, fields))
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
            if not replaceable.update(**changes) and not rows.filter(task_id=task_id).exists():
                raise

    def _rows(self, ids: Sequence[str]) -> QuerySet[Any]:
        """Look for tasks' results where they are written, whatever reads are routed to."""
        rows = self.TaskModel._default_manager.using(router.db_for_write(self.TaskModel))
        found: QuerySet[Any] = rows.filter(task_id__in=ids)
        return found

    def _ended(self, ids: Sequence[str]) -> set[str]:
        return set(self._rows(ids).filter(status__in=states.READY_STATES).values_list("task_id", flat=True))

    # Chords

    def apply_chord(self, header_result_args: Any, body: Any, **kwargs: Any) -> None:
        """Note what a chord waits for; a chain that is sent on again finds it noted."""
        group = self.app.GroupResult(*header_result_args)
        parts = [result.as_tuple() for result in group]
        row = ChordCounter(group_id=group.id, sub_tasks=json.dumps(parts), count=len(parts))
        rows = _chords()
        rows.bulk_create([row], ignore_conflicts=True)
        if connections[rows.db].in_atomic_block:
            # Parts that end before the row can be seen find no chord.
            self._after_commit(partial(self._end_if_complete, group.id, body, parts))

    def add_to_chord(self, chord_id: str, result: Any) -> None:
        """Let a chord wait for one more task, of which a running member says so."""
        _patiently(_chords().db, partial(self._add_to_chord, chord_id, result.as_tuple()))

    def _add_to_chord(self, chord_id: str, part: Part) -> None:
        with _locked(chord_id) as rows:
            parts = [*_awaited(chord_id), part]
            rows.update(sub_tasks=json.dumps(parts), count=len(parts))

    def on_chord_part_return(self, request: Any, state: str, result: Any, **kwargs: Any) -> None:
        """End the chord if this was its last part."""
        if request.id and request.group:
            # Of two that end at once one must see the other's end, so each looks after its own can be seen.
            self._after_commit(partial(self._part_ended, request, state, result))

    def _after_commit(self, step: Callable[[], None]) -> None:
        alias = _chords().db
        transaction.on_commit(partial(_patiently, alias, step), using=alias)

    def _part_ended(self, request: Any, state: str, result: Any) -> None:
        parts = _awaited(request.group)
        if not parts:
            logger.info("replay.chord_over", extra={"group": request.group, "job": request.id})
            # After a crash: a chord that is the body may have ended before its row could be seen.
            for chord_id, body in chords_of(request.chord):
                self._end_if_complete(chord_id, body, _awaited(chord_id))
            return
        own = under(parts, request.id)
        # Where results are ignored, or a group's tasks were never sent, since what precedes them failed.
        for task_id in set(own) - self._ended(own):
            self.store_result(task_id, result, state, request=request)
        self._end_if_complete(request.group, request.chord, parts)

    def _end_if_complete(self, chord_id: str, body: Any, parts: Sequence[Part]) -> None:
        if parts and self._all_ended(parts):
            self._end_chord(chord_id, maybe_signature(body, app=self.app))

    def _all_ended(self, parts: Iterable[Part]) -> bool:
        chunks = _from_the_end(list(task_ids(parts)))
        return all(len(self._ended(ids)) == len(set(ids)) for ids in chunks)

    def _end_chord(self, chord_id: str, body: Any) -> None:
        with _locked(chord_id) as rows:
            parts = _awaited(chord_id)
            if not (parts and self._all_ended(parts)):
                return
            # It has an end after a crash: it was told of a failure, or it has run.
            if not self._ended([_goal(body).id]) and self._sent(body, parts):
                rows.delete()
                return
        self._tell_outer_chords(_goal(body))
        rows.delete()

    def _sent(self, body: Any, parts: Sequence[Part]) -> bool:
        """Send the body its results; or let it fail with what keeps it from running."""
        try:
            self._send(body, self._results(parts))
        except ChordError as error:
            # Not in words: they repeat what a member of the chord has raised.
            logger.error("replay.chord_failed", extra={"task": body.task, "job": body.id})
            self._fail(_goal(body), error)
            return False
        return True

    def _results(self, parts: Sequence[Part]) -> list[Any]:
        ids = list(task_ids(parts))
        rows = {row.task_id: row for some in _from_the_end(ids) for row in self._rows(some)}
        results = {task_id: self._result(row) for task_id, row in rows.items()}
        for task_id in ids:
            if rows[task_id].status in states.PROPAGATE_STATES:
                error = results[task_id]
                raise ChordError(f"Dependency {task_id} raised {error!r}") from error
        return gathered(parts, results.__getitem__)

    def _result(self, row: Any) -> Any:
        meta = {"status": row.status, "result": self.decode_content(row, row.result)}
        return self.meta_from_decoded(meta)["result"]

    def _send(self, body: Any, results: list[Any]) -> None:
        sent = False
        token = sending.set(body)
        try:
            # Signal handlers run in here: a query of theirs that fails must not spoil our transaction.
            with transaction.atomic(using=_chords().db):
                body.delay(results)
                sent = True
        except SoftTimeLimitExceeded:
            raise
        except Exception as error:
            if not sent:
                raise ChordError(f"Callback error: {error!r}") from error
            logger.warning("replay.publish_handler_failed", exc_info=True, extra={"task": body.task})
        finally:
            sending.reset(token)

    def _fail(self, body: Any, error: ChordError) -> None:
        try:
            with transaction.atomic(using=_chords().db):
                self.chord_error_from_stack(body, error)
        except DatabaseError:
            # An error callback's, which Celery calls here and now.
            logger.warning("replay.errback_failed", exc_info=True, extra={"task": body.task})
        if not self._ended([body.id]):
            self.store_result(body.id, error, states.FAILURE)

    def _tell_outer_chords(self, body: Any) -> None:
        """Let a failed body be a failed part, where it is one."""
        for row in self._rows([body.id]).filter(status__in=states.PROPAGATE_STATES):
            for part in outer_parts(body):
                self.on_chord_part_return(part, states.FAILURE, self._result(row))


def _goal(body: Any) -> Any:
    """Return the signature whose result is that of a chord with this body."""
    while isinstance(body, chord):
        body = body.body
    return body


def _from_the_end(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Part ids for queries, a few at first: members end about in the order in which they were sent."""
    size = 10
    while ids:
        yield ids[-size:]
        ids, size = ids[:-size], _CHUNK


def _chords() -> QuerySet[Any]:
    found: QuerySet[Any] = ChordCounter.objects.using(router.db_for_write(ChordCounter))
    return found


def _awaited(chord_id: str) -> list[Part]:
    """Return what a chord waits for; nothing where it is over."""
    row = _chords().filter(group_id=chord_id).first()
    return json.loads(row.sub_tasks) if row else []


@contextmanager
def _locked(chord_id: str) -> Iterator[QuerySet[Any]]:
    """Lock a chord's row, if it is there."""
    rows = _chords().filter(group_id=chord_id)
    with transaction.atomic(using=rows.db):
        # By a write: SQLite has no other lock, and can't wait for it in a transaction that has read.
        rows.update(count=F("count"))
        yield rows


def _patiently(alias: str, step: Callable[[], None]) -> None:
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
