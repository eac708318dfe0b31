"""Dry runs and forks that somebody asks for, and a worker does: what is asked, and how it is put on its way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..dead_letters import Decision
from ..exceptions import ConfigurationError, TrialNotSent
from ..records import Letter
from ..replay import fitting, mending
from ..runtime import Runtime
from ..states import Verb

TASK = "celery_replay.dry_run"
"""The task by which a worker does them."""
PATIENCE_S = 60
"""Seconds that one run may take."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What a fork has otherwise. Written by somebody who saw the payload redacted: a worker puts its secrets back."""

    args: str | None = None
    """A JSON list."""
    kwargs: str | None = None
    """A JSON object."""
    variation: Mapping[str, Any] = field(default_factory=dict)
    """What else is otherwise, as `Variation.as_data` has it. Read where it is run, which may be by another version."""

    @property
    def mode(self) -> str:
        """Name what is done with them."""
        return "dry-run" if self == Changes() else "fork"

    def message(self, runtime: Runtime, letter: Letter) -> bytes:
        """Return the message that is run.

        Raises:
            PayloadUnfit: today's code can't be called so.
            PayloadUnreadable: the letter's message was not kept, or is not JSON.
        """
        return letter.to_send if self.args is None or self.kwargs is None else self._mended(runtime, letter).message

    def names(self, runtime: Runtime, letter: Letter) -> list[str]:
        """Name the arguments that are changed.

        Raises:
            PayloadUnfit, PayloadUnreadable: as for the message.
        """
        return [] if self.args is None or self.kwargs is None else self._mended(runtime, letter).changed

    def _mended(self, runtime: Runtime, letter: Letter) -> fitting.Mended:
        task = runtime.app.tasks.get(letter.operation)
        if task is None:
            raise fitting.PayloadUnfit(f"task {letter.operation} is not registered here: nobody can say what it takes")
        args, kwargs = mending.meant(letter.to_send, self.args or "", self.kwargs or "")
        return fitting.replaced(letter, runtime.policy(task), args, kwargs)


@dataclass(frozen=True, kw_only=True)
class Order:
    """Which dead letters are to be tried, and how."""

    operation_id: str
    actor: str
    letters: Mapping[str, int]
    """The revision of each, as it was when it was chosen: one that changed since is not run."""
    changes: Changes = field(default_factory=Changes)

    def pack(self) -> dict[str, Any]:
        """Return it as JSON data."""
        changes = {**vars(self.changes), "variation": dict(self.changes.variation)}
        return {**vars(self), "letters": dict(self.letters), "changes": changes}

    @classmethod
    def unpack(cls, data: Mapping[str, Any]) -> Order:
        """Return it from JSON data; what a newer version has added is left out."""
        changes = {name: data["changes"][name] for name in ("args", "kwargs", "variation")}
        named = {name: data[name] for name in ("operation_id", "actor", "letters")}
        return cls(**named, changes=Changes(**changes))


def give(runtime: Runtime, order: Order, *, text: str = "", changed: Mapping[str, Any] | None = None) -> None:
    """Write down who asks for what, in the history of each letter, and send it to a worker.

    Args:
        text: why.
        changed: names of what is changed, for the history.

    Raises:
        ConfigurationError: the setting `replay_trial_queue` is empty.
        TrialNotSent: the broker did not take it; the histories tell of that.
    """
    queue = runtime.settings.trial_queue
    if not queue:
        raise ConfigurationError("the setting replay_trial_queue is empty: no worker does dry runs here")
    details = json.dumps({"mode": order.changes.mode, **(changed or {})})
    wanted = Decision(
        verb=Verb.TRIAL_WANTED, actor=order.actor, text=text, operation_id=order.operation_id, details=details
    )
    runtime.store.write_down([(submission, wanted) for submission in order.letters])
    try:
        _send(runtime, order, queue)
    except Exception as error:
        failed = Decision(verb=Verb.LEFT_OUT, actor=order.actor, text="it could not be sent to a worker")
        told = Decision(**{**vars(failed), "operation_id": order.operation_id, "details": '{"wanted":"trial_wanted"}'})
        runtime.store.write_down([(submission, told) for submission in order.letters])
        raise TrialNotSent(
            f"the broker did not take it ({type(error).__name__}); see that it can be reached, and ask again"
        ) from error


def _send(runtime: Runtime, order: Order, queue: str) -> None:
    seconds = PATIENCE_S * (len(order.letters) + 2)
    runtime.app.send_task(
        TASK,
        (order.pack(),),
        queue=queue,
        serializer="json",
        ignore_result=True,
        # The app's own limits are for its own tasks.
        time_limit=seconds + PATIENCE_S,
        soft_time_limit=seconds,
        # What stands in there is nobody's to read in a log.
        argsrepr=f"({order.changes.mode} of {len(order.letters)})",
        kwargsrepr="{}",
        retry=True,
        retry_policy={"max_retries": 1, "interval_start": 0},
    )
