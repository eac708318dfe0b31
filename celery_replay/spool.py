"""Where a CLOSE waits on disk while the store is down, until the steward delivers it."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .clock import new_id
from .facts import Delivery
from .lifecycle import Ending
from .logs import logger_of
from .records import Chunk, Failure, StepRecord
from .states import Category, Outcome, Reason, StepState

logger = logger_of(__name__)


class Spool:
    """A folder with one JSON file per CLOSE, written whole or not at all. Nothing in it is ever executed."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def put(self, ending: Ending, chunks: list[Chunk]) -> Path:
        """Write an ending down; it survives the process, and the machine's restart."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder / f"{new_id()}.json"
        draft = path.with_suffix(".tmp")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump({"v": 1, "ending": _plain(ending), "chunks": [_plain(c) for c in chunks]}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        return path

    def waiting(self) -> Iterator[tuple[Path, Ending, list[Chunk]]]:
        """Yield what waits, oldest first. A file that can't be read is set aside and logged."""
        for path in sorted(self.folder.glob("*.json")):
            try:
                data = json.loads(path.read_text())
                yield path, _ending(data["ending"]), [_chunk(chunk) for chunk in data["chunks"]]
            except Exception:  # somebody else's file may hold anything
                logger.exception("replay.spool_unreadable", extra={"path": str(path)})
                with suppress(OSError):
                    path.rename(path.with_suffix(".bad"))


def _plain(record: Ending | Chunk) -> dict[str, Any]:
    plain: dict[str, Any] = {name: getattr(record, name) for name in record.__dataclass_fields__}
    if isinstance(record, Ending):
        delivery = record.delivery
        plain["delivery"] = {
            "submission": delivery.submission,
            "operation": delivery.operation,
            "generation": delivery.generation,
            "message": base64.b64encode(delivery.message()).decode(),
        }
        plain["failure"] = asdict(record.failure) if record.failure else None
        plain["steps"] = [asdict(step) for step in record.steps]
    else:
        plain["body"] = base64.b64encode(record.body).decode()
        plain["blobs"] = [(name, base64.b64encode(body).decode()) for name, body in record.blobs]
    return plain


def _ending(plain: dict[str, Any]) -> Ending:
    kept = plain.pop("delivery")
    message = base64.b64decode(kept.pop("message"))
    failure, steps = plain.pop("failure"), plain.pop("steps")
    return Ending(
        **{**plain, "outcome": Outcome(plain["outcome"])},
        delivery=Delivery(**kept, message=lambda: message),
        failure=_failure(failure) if failure else None,
        steps=tuple(StepRecord(**{**step, "state": StepState(step["state"])}) for step in steps),
    )


def _failure(plain: dict[str, Any]) -> Failure:
    words = {"category": Category(plain["category"]), "reason": Reason(plain["reason"])}
    return Failure(**{**plain, **words, "frames": tuple(plain.get("frames", ()))})


def _chunk(plain: dict[str, Any]) -> Chunk:
    blobs = tuple((name, base64.b64decode(body)) for name, body in plain["blobs"])
    return Chunk(**{**plain, "body": base64.b64decode(plain["body"]), "blobs": blobs})
