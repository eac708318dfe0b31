"""What guards an effect where it happens: the target's own transaction. Adapters live with the target's library."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from .exceptions import ConfigurationError
from .policy import aliases_of


class Marker(Protocol):
    """The record of an effect in the effect's own transaction."""

    done: bool
    """An earlier attempt committed the effect."""
    result: str | None
    """Its return value as JSON."""

    def refuse_doomed(self) -> None:
        """See that the transaction can still be committed.

        Raises:
            RolledBack: it can't.
        """

    def complete(self, result: str | None) -> None:
        """Keep the return value; it commits with the effect."""


class Watch(Protocol):
    """Notices transactions that were rolled back without an error."""

    seen: bool


class Target(Protocol):
    """A database that effects are written to."""

    def check(self, aliases: Sequence[str]) -> None:
        """See that there are such databases, each another one, as far as that is known by now.

        Raises:
            ConfigurationError: the message says what is wrong, and what may be named.
        """

    def fenced(self, using: str, name: str, token: int) -> AbstractContextManager[None]:
        """Begin a transaction that a newer owner's token refuses.

        Raises:
            FenceRefused: the target has seen a newer token.
        """

    def marked(self, using: str, identity: str, nonce: str) -> AbstractContextManager[Marker]:
        """Begin a transaction with a unique marker row as its first statement.

        Raises:
            RolledBack: the transaction was marked for rollback while the body went on.
        """

    def erase(self, using: str, identity: str) -> None:
        """Erase the return value that a marker keeps; that the effect was done stays."""

    def without_writes(self, step: str) -> AbstractContextManager[None]:
        """Refuse what this thread writes to any database while a step with a side effect runs.

        Raises:
            StepWrites: it would write.
        """

    def without_writes_to(self, aliases: Collection[str]) -> AbstractContextManager[None]:
        """Refuse what this thread writes to some databases.

        Raises:
            HalfCommitted: it would write.
        """

    def watch(self) -> AbstractContextManager[Watch]:
        """Watch this thread's transactions."""


def without_writes(task: Any, step: str) -> AbstractContextManager[None]:
    """Refuse writes to the task's databases while a step runs, where its base class knows of any."""
    target: Target | None = getattr(task, "replay_target", None)
    return nullcontext() if target is None else target.without_writes(step)


def check(task: Any) -> None:
    """See that a task's databases can be what it declares; the task may not be bound yet.

    Raises:
        ConfigurationError: they can't; the message names the task.
    """
    if not hasattr(task, "replay_target"):
        # None of ours: these words are its own.
        return
    for option in ("atomic", "fenced"):
        declared = getattr(task, option, None)
        if declared is not None:
            target = target_of(task)
            try:
                target.check(aliases_of(declared))
            except ConfigurationError as error:
                raise ConfigurationError(f"task {task.name}: {option}={declared!r}: {error.message}") from error


def target_of(task: Any) -> Target:
    """Return the adapter that a task's base class names in `replay_target`."""
    target = getattr(task, "replay_target", None)
    if target is None:
        raise ConfigurationError(
            f"task {task.name}: `atomic` and `fenced` need a database adapter; "
            'in a Django project use task_cls="django_celery_replay:ReplayTask"'
        )
    result: Target = target
    return result
