"""Which job an attempt is of: by the key that came with the message, or is computed, and by what that claims."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from . import signals
from .headers import Stamp
from .logs import logger_of
from .policy import TaskPolicy
from .redaction import redact_text
from .serialization import digest

logger = logger_of(__name__)


class Identity(NamedTuple):
    """What others may be told apart from, or be the same as."""

    key: str
    """The idempotency key; empty where none is declared."""
    fingerprint: str | None
    claim: str | None
    """What only one submission can hold."""
    error: Exception | None = None
    """Why the declared key could not be computed."""


def identify(
    task: Any, policy: TaskPolicy, stamp: Stamp, args: Any, kwargs: Any, secrets: Callable[[], Collection[str]]
) -> Identity:
    """Take the key that came with the message; compute it where none did, and compare where both exist."""
    inherits = stamp.operation is not None and policy.key is None
    if inherits:
        # It stands in for a task that it replaced, without a key of its own.
        key, fingerprint, error = stamp.key or "", stamp.fingerprint, None
        claim = digest(str(stamp.operation), key) if key else None
    else:
        key, fingerprint, error = _computed(task, policy, stamp, args, kwargs, secrets)
        claim = policy.claim(key)
    # A replay without a key claims the job that it replays: that one must not come back beside it.
    return Identity(key, fingerprint, claim or stamp.original, error)


def _computed(
    task: Any, policy: TaskPolicy, stamp: Stamp, args: Any, kwargs: Any, secrets: Callable[[], Collection[str]]
) -> tuple[str, str | None, Exception | None]:
    carried = stamp.key
    known = stamp.fingerprint if carried and not stamp.operation else None
    try:
        computed, fingerprint = policy.identify(args, kwargs, known)
    except Exception as error:  # a user's key function
        return carried or "", stamp.fingerprint, error if carried is None else None
    # A replacement with a key of its own leaves the other's behind.
    if not carried or policy.key is None or (stamp.operation and computed != carried):
        return computed, fingerprint, None
    if computed and computed != carried:
        keys = {"published": carried, "computed": computed}
        shown = {name: redact_text(key, secrets()) for name, key in keys.items()}
        logger.warning("replay.unstable_key", extra={"task": task.name, **shown})
        signals.send(signals.unstable_key, sender=task, published=carried, computed=computed)
    return carried, stamp.fingerprint or fingerprint, None
