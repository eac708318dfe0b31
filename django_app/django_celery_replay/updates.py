"""Conditional updates: a row is changed only by whoever knows its version, or has the newest token."""

from __future__ import annotations

from typing import Any

from django.db import OperationalError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Model, Q, QuerySet

from celery_replay.exceptions import ConfigurationError
from celery_replay.guards import conflict, refusal

from .guarding import guarded
from .troubles import is_stale


def versioned_update(
    target: Model | QuerySet[Any],
    /,
    *,
    version_field: str = "version",
    expected: int | None = None,
    raise_on_conflict: bool = True,
    **changes: Any,
) -> bool:
    """Change one row if it is as it was read, and raise its version by one; in a task's body and anywhere else.

    A lost race is an event of the trace, `optimistic_conflict`, with the version that was expected and the one that is
    there. Like `QuerySet.update()` it calls no `save()` and sends no signals.

    Args:
        target: an instance, which gets the new values; or a queryset of one row.
        version_field: an integer field that every change raises.
        expected: the version on which the change was decided; by default the instance's.
        raise_on_conflict: raise, or return False.

    Returns:
        Whether the row was changed.

    Raises:
        VersionConflict: somebody else changed it first, or it is gone. Raised in any case where the database has ended
            the transaction around it, too.
        ConfigurationError: there is no expected version, or the queryset has more than one row.
    """
    instance = target if isinstance(target, Model) else None
    rows = writable(_of_instance(target) if isinstance(target, Model) else target)
    if expected is None and instance is not None:
        expected = getattr(instance, version_field)
    if not isinstance(expected, int) or version_field in changes:
        raise ConfigurationError(
            f"versioned_update: expected={expected!r}: must be the version that was read, a whole number; "
            f"{version_field} itself is raised by one, and can't be set"
        )
    changed, found = _change(rows, version_field, expected, changes)
    if changed:
        if instance is not None:
            _refresh(instance, {**changes, version_field: expected + 1})
        return True
    label = rows.model._meta.label
    error = conflict(f"{label} {instance.pk}" if instance is not None else label, expected, found)
    if raise_on_conflict or connections[rows.db].needs_rollback:
        raise error
    return False


def _of_instance(instance: Model) -> QuerySet[Any]:
    alias = router.db_for_write(type(instance), instance=instance)
    rows: QuerySet[Any] = QuerySet(type(instance), using=alias).filter(pk=instance.pk)
    return rows


def writable(rows: Any) -> QuerySet[Any]:
    """Return a queryset on the database that it would be written to."""
    writable: QuerySet[Any] = rows.using(rows._db or router.db_for_write(rows.model, **rows._hints))
    return writable


def _change(rows: QuerySet[Any], field: str, expected: int, changes: dict[str, Any]) -> tuple[bool, int | None]:
    """Return whether the row was changed; if it was not, also its version, where the database tells."""
    try:
        with transaction.atomic(using=rows.db):
            changed = rows.filter(**{field: expected}).update(**changes, **{field: F(field) + 1})
            if changed > 1:
                raise ConfigurationError(
                    f"versioned_update: {changed} rows have {field}={expected}; a version is of one row, so give it "
                    "the queryset of one, by its primary key"
                )
            return changed == 1, None if changed else _version(rows, field)
    except OperationalError as error:
        # From REPEATABLE READ on, the database itself may see that the row is not what this transaction has read.
        if not is_stale(error):
            raise
        return False, None


def _version(rows: QuerySet[Any], field: str) -> int | None:
    if connections[rows.db].vendor == "mysql":
        # It would show the row as it was when the transaction began, unless it is asked for a lock.
        rows = rows.select_for_update()
    found: int | None = rows.values_list(field, flat=True).first()
    return found


def _refresh(instance: Model, values: dict[str, Any]) -> None:
    computed = [name for name, value in values.items() if hasattr(value, "resolve_expression")]
    for name in values.keys() - set(computed):
        setattr(instance, name, values[name])
    if computed:
        instance.refresh_from_db(fields=computed)


def fenced_update(rows: QuerySet[Any], fence_field: str, token: int, /, **changes: Any) -> int:
    """Change rows that no newer owner has written, and leave the token in them: all of the rows, or none.

    Give it `attempt.fence`, or `attempt.fence_of()` a resource: a number that rises with every owner of these rows.
    Where one of these is refused, the attempt ends, and the job is whoever's it is by now; with another number the job
    fails, as that would be refused for ever.

    Args:
        rows: those to be changed.
        fence_field: a BigIntegerField of theirs, for the token of whoever wrote last; NULL where nobody has.
        token: the owner's; an equal one is let through.

    Returns:
        How many rows were changed.

    Raises:
        FenceRefused: a newer owner has written one of them.
    """
    rows = writable(rows)

    def change(connection: BaseDatabaseWrapper) -> int:
        free = Q(**{f"{fence_field}__lte": token}) | Q(**{f"{fence_field}__isnull": True})
        changed = rows.filter(free).update(**changes, **{fence_field: token})
        # With a lock: a plain look may be answered from a snapshot that is older than what the update saw.
        if rows.select_for_update().filter(**{f"{fence_field}__gt": token}).values_list("pk").first():
            raise refusal(rows.model._meta.label, f"database {connection.alias!r}", token)
        return int(changed)

    with guarded(rows.db, change) as changed:
        return changed
