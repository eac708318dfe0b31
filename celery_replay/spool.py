"""What waits on disk for the steward: each CLOSE while the store is down, and news that brings a whole message."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .clock import new_id
from .facts import Delivery
from .lifecycle import Ending
from .logs import logger_of
from .losses import News
from .records import Chunk, Failure, StepRecord
from .serialization import safe_text
from .states import Category, Outcome, Reason, StepState

logger = logger_of(__name__)


_ROOM = 256 << 20
_FILES = 10_000
"""How much news may wait: messages that nobody can read come as fast as somebody sends them."""
_LOOK_EVERY = 64


class Spool:
    """A folder with one file per CLOSE or item of news, written whole or not at all. Nothing in it is ever executed."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._news = 0
        self._full = False

    def put(self, ending: Ending, chunks: list[Chunk]) -> Path:
        """Write an ending down; it survives the process, and the machine's restart."""
        data = {"v": 1, "ending": _plain(ending), "chunks": [_plain(c) for c in chunks]}
        return self._write(".json", json.dumps(data).encode(), sync=True)

    def put_news(self, news: News, cover: Mapping[str, Any], body: bytes) -> Path:
        """Write news down, with a message as `parking.raw` takes it apart. It survives the process.

        Raises:
            OSError: too much waits already.
        """
        self._news += 1
        if self._news % _LOOK_EVERY == 0:
            self._full = self._is_full()
        if self._full:
            raise OSError(f"too much news waits in {self.folder}; does a steward run on this machine?")
        line = json.dumps({"v": 1, "news": news.plain(), "cover": cover}, default=safe_text).encode()
        # A worker's event loop waits for this, so it is not forced to the disk.
        return self._write(".news", line, b"\n", body, sync=False)

    def _is_full(self) -> bool:
        sizes = [entry.stat().st_size for entry in os.scandir(self.folder) if entry.name.endswith(".news")]
        return len(sizes) > _FILES or sum(sizes) > _ROOM

    def _write(self, suffix: str, *parts: bytes, sync: bool) -> Path:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder / f"{new_id()}{suffix}"
        draft = path.with_suffix(".tmp")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.writelines(parts)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        draft.rename(path)
        return path

    def waiting(self) -> Iterator[tuple[Path, Ending, list[Chunk]]]:
        """Yield the endings that wait, oldest first. A file that can't be read is set aside and logged."""
        for path in sorted(self.folder.glob("*.json")):
            try:
                data = json.loads(path.read_text())
                yield path, _ending(data["ending"]), [_chunk(chunk) for chunk in data["chunks"]]
            except Exception:  # somebody else's file may hold anything
                self._set_aside(path)

    def size(self) -> int:
        """Count what waits."""
        return sum(1 for pattern in ("*.json", "*.news") for _ in self.folder.glob(pattern))

    def waiting_news(self) -> Iterator[Path]:
        """Yield the news that wait, oldest first."""
        yield from sorted(self.folder.glob("*.news"))

    def news(self, path: Path) -> tuple[News, dict[str, Any], bytes] | None:
        """Read news, its message's cover and body; None where that can't be read, or another steward has taken it."""
        try:
            line, _, body = path.read_bytes().partition(b"\n")
            data = json.loads(line)
            return News.of(data["news"]), dict(data["cover"]), body
        except FileNotFoundError:
            return None
        except Exception:  # somebody else's file may hold anything
            self._set_aside(path)
            return None

    @staticmethod
    def _set_aside(path: Path) -> None:
        logger.error("replay.spool_unreadable", exc_info=True, extra={"path": str(path)})
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
    resources = plain.pop("resources", ())
    return Ending(
        **{**plain, "outcome": Outcome(plain["outcome"])},
        delivery=Delivery(**kept, message=lambda: message),
        failure=_failure(failure) if failure else None,
        resources=tuple(resources),
        steps=tuple(StepRecord(**{**step, "state": StepState(step["state"])}) for step in steps),
    )


def _failure(plain: dict[str, Any]) -> Failure:
    words = {"category": Category(plain["category"]), "reason": Reason(plain["reason"])}
    return Failure(**{**plain, **words, "frames": tuple(plain.get("frames", ()))})


def _chunk(plain: dict[str, Any]) -> Chunk:
    blobs = tuple((name, base64.b64decode(body)) for name, body in plain["blobs"])
    return Chunk(**{**plain, "body": base64.b64decode(plain["body"]), "blobs": blobs})
