"""The task class for Django projects."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from celery.contrib.django.task import DjangoTask

from celery_replay.snapshots.capture import StateProvider
from celery_replay.targets import Marker, Target, Watch
from celery_replay.task import ReplayTask as CoreTask

from .state_provider import DjangoState
from .surroundings import DjangoSurroundings


class DjangoTarget:
    """Django databases as a target of guarded effects.

    Their models are imported at first use: Celery makes its task class before Django has loaded the models.
    """

    def check(self, aliases: Sequence[str]) -> None:
        """See that there are such databases, each another one; where the settings are not loaded, the worker does."""
        from .guarding import check

        check(aliases)

    def fenced(self, using: str, name: str, token: int) -> AbstractContextManager[None]:
        """Begin a transaction that a newer owner's token refuses."""
        from .fencing import fenced

        return fenced(using, name, token)

    def marked(self, using: str, identity: str, nonce: str) -> AbstractContextManager[Marker]:
        """Begin a transaction with a unique marker row as its first statement."""
        from .markers import marked

        return marked(using, identity, nonce)

    def erase(self, using: str, identity: str) -> None:
        """Erase the return value that a marker keeps."""
        from .markers import erase

        erase(using, identity)

    def without_writes(self, step: str) -> AbstractContextManager[None]:
        """Refuse what this thread writes to any database while a step with a side effect runs."""
        from .writes import without_writes

        return without_writes(step)

    def without_writes_to(self, aliases: Collection[str]) -> AbstractContextManager[None]:
        """Refuse what this thread writes to databases in which its job was committed."""
        from .writes import without_writes_to

        return without_writes_to(aliases)

    def watch(self) -> AbstractContextManager[Watch]:
        """Watch this thread's transactions."""
        from .rollbacks import watch_rollbacks

        return watch_rollbacks()


class ReplayTask(CoreTask, DjangoTask):
    """celery-replay's task with Django's `delay_on_commit()`, guarded transactions and detection of rollbacks."""

    abstract = True
    replay_target: ClassVar[Target | None] = DjangoTarget()
    replay_state: ClassVar[Sequence[StateProvider]] = (DjangoState(),)
    replay_surroundings: ClassVar[DjangoSurroundings | None] = DjangoSurroundings()
