"""Who did what, as lines that a template draws."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from celery_replay.records import HistoryEntry

from ..models import DeadLetter
from ..text import token
from .display import NONE, moment, shown, told, word


def details_of(entry: HistoryEntry) -> Mapping[str, Any]:
    """Return what an entry says was changed."""
    try:
        found = json.loads(entry.details)
    except (RecursionError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def lines(entries: Iterable[HistoryEntry], model_admin: Any) -> Iterator[dict[str, object]]:
    """Tell of entries, the newest first.

    Args:
        model_admin: that of the page.
    """
    for entry in reversed(list(entries)):
        yield {
            "at": moment(entry.at),
            "verb": word(entry.verb),
            "actor": shown(entry.actor, 150) or NONE,
            "text": told(entry.text),
            "operation_url": _operation_url(entry, model_admin),
        }


def _operation_url(entry: HistoryEntry, model_admin: Any) -> str:
    key = token(entry.operation_id)
    url: str = model_admin.url("operation", key, model=DeadLetter) if key else ""
    return url
