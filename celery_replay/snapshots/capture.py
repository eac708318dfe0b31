"""Taking a snapshot of what a task declares as its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from typing import Any, Protocol

from celery.exceptions import SoftTimeLimitExceeded

from ..exceptions import SnapshotTooLarge
from ..logs import logger_of
from ..redaction import is_secret, redact, redact_text
from ..trace import Recorder
from .tree import Built, build
from .values import Redacted, encoded

LIMIT = 10_000
"""Records of one state: a snapshot is of what a job works on, not of a table."""

BEFORE, AFTER = "before", "after"
"""The body."""
REACHED = "(reached)"
"""In a dry run, the place at which it goes over to what is live."""

_DATA = frozenset({dict, list, tuple})
_REDACTED = Redacted.REDACTED

Record = tuple[str, Mapping[str, Any]]
"""An id, and fields by their names."""


logger = logger_of(__name__)


class StateProvider(Protocol):
    """Knows how to read values of a library's types."""

    reverts: bool
    """Can it put its values back? Then it is a `snapshots.reversal.Reverter`."""

    def guarded(self) -> AbstractContextManager[Any]:
        """Keep errors of a capture from breaking what is open around it, such as a transaction."""

    def records(self, value: Any, limit: int) -> Iterable[Record] | None:
        """Read a value's records, `limit` and one more at most; None where it is none of these types."""


def take(
    label: str, states: Mapping[str, Callable[[], Any]], providers: Sequence[StateProvider], recorder: Recorder
) -> None:
    """Take a snapshot, and note it in a trace. Where that fails, the trace tells; the job goes on.

    Args:
        label: `BEFORE`, `AFTER`, or a name for a moment in between.
    """
    try:
        built = capture(states, providers)
    except SoftTimeLimitExceeded:
        raise  # it is meant for the body
    except Exception as error:  # a user's function, or a database
        logger.warning("replay.snapshot_failed", exc_info=True, extra={"when": label})
        recorder.record("snapshot_failed", status="fail", attributes={"when": label, **recorder.said(error)})
        return
    size = len(built.blobs[built.reference])
    told = {"blob": built.reference, "bytes": size}
    recorder.record(
        "snapshot_taken", plain={"when": label, "records": built.count, "snapshot": told}, blobs=built.blobs
    )


def capture(states: Mapping[str, Callable[[], Any]], providers: Sequence[StateProvider]) -> Built:
    """Read states, and lay them out. Secret fields, by their names, are not written down.

    Args:
        states: by their names, functions that return what is to be read.

    Raises:
        SnapshotTooLarge: a state has more records than `LIMIT`.
        Exception: whatever a state's function or its database raises.
    """
    with ExitStack() as stack:
        for provider in providers:
            stack.enter_context(provider.guarded())
        return build({name: _bodies(name, state(), providers) for name, state in states.items()})


def _bodies(name: str, value: Any, providers: Sequence[StateProvider]) -> dict[str, bytes]:
    secret = _Secrets()
    found = {
        record: encoded({field: _REDACTED if secret[field] else _kept(item) for field, item in fields.items()})
        for record, fields in islice(_records(name, value, providers), LIMIT + 1)
    }
    if len(found) > LIMIT:
        raise SnapshotTooLarge(f"state {name!r} has more than {LIMIT:,} records; declare less than that")
    return found


def _records(name: str, value: Any, providers: Sequence[StateProvider]) -> Iterable[Record]:
    for provider in providers:
        found = provider.records(value, LIMIT)
        if found is not None:
            return found
    # Data is a record under its state's name: what a cache held, a total, a file's digest.
    return [(name, value if isinstance(value, Mapping) else {"value": value})]


def written_down(field: str, value: Any) -> Any:
    """Return what is written down of a field: nothing that is secret."""
    return _REDACTED if is_secret(field) else _kept(value)


def _kept(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return redact_text(value)
    return redact(value) if kind in _DATA else value


class _Secrets(dict[str, bool]):
    """Remembers which fields are secret: rows have the same ones."""

    def __missing__(self, field: str) -> bool:
        self[field] = found = is_secret(field)
        return found
