"""A process that tells a journal something and is killed on the way: `python -m tests.journaled.killed`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def main(ledger: str, journal: str, prefix: str, point: str) -> None:
    """Tell, and die at a point; or tell all that comes until somebody else kills this process."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.django_settings")
    import django

    django.setup()
    from celery_replay.stores import archive
    from tests.support.journaled_stores import make_journaled_store

    store = make_journaled_store(ledger, journal, empty=False, prefix=prefix)
    if point in ("taken", "read"):
        store.ledger.changed = _dying(store.ledger.changed, before=point == "taken")  # type: ignore[method-assign]
    elif point == "written":
        archive.tell = _dying(archive.tell, before=False)
    elif point != "any":
        store.ledger.told = _dying(store.ledger.told, before=point == "committed")  # type: ignore[method-assign]
    if point != "any":
        store._archive(0, 500)
        return
    sys.stdout.write("at work\n")
    sys.stdout.flush()
    while True:
        store._archive(0, 20)


def _dying(work: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    def die(*given: Any) -> None:
        if not before:
            work(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    return die


if __name__ == "__main__":
    main(*sys.argv[1:])
