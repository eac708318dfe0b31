"""What events refer to: values that were too large for them, and what steps and other services returned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..records import Event
from ..redaction import redact
from ..serialization import unpack
from ..stores.base import Store
from ..trace import put_aside
from .payload import decoded

GONE = "(gone)"
_NAMES = {"input_ref": "input", "output_ref": "output"}


def values_of(store: Store, events: Iterable[Event]) -> Sequence[Mapping[str, Any]]:
    """Return for each event the values that it refers to, by their names, without secrets.

    Raises:
        StoreError: they are kept elsewhere, and that place can't be reached.
    """
    wanted = [dict(_references(event)) for event in events]
    bodies = store.blobs({reference for found in wanted for reference in found.values()})
    return [{name: _value(name, bodies.get(reference)) for name, reference in found.items()} for found in wanted]


def _references(event: Event) -> Iterable[tuple[str, str]]:
    named = {name: str(value["blob"]) for name, value in event.attributes.items() if put_aside(value)}
    if event.name != "snapshot_taken":
        yield from named.items()
    for field, name in _NAMES.items():
        reference = getattr(event, field)
        if reference and reference not in named.values():
            yield name, reference


def _value(name: str, body: bytes | None) -> Any:
    if body is None:
        return GONE
    try:
        value = unpack(body)
        if isinstance(value, dict) and value.keys() == {"call", "output"}:
            # What a step returned: JSON in a text of its own.
            value = decoded(value["output"])
        return redact(value, name)
    except Exception as error:  # it is damaged, or of another version
        return f"({type(error).__name__}: it can't be read)"
