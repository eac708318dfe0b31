"""Time and ids from one place, so that tests can hold them still."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

Micros = int
"""Microseconds since the Unix epoch, UTC. Integers, so that every store keeps them exactly."""

SECOND: Micros = 1_000_000


def wall() -> Micros:
    """Read this machine's clock. Never used to judge a lease: that is the store's clock."""
    return time.time_ns() // 1_000


def micros(seconds: float) -> Micros:
    """Convert a duration in seconds."""
    return round(seconds * SECOND)


def as_datetime(value: Micros) -> datetime:
    """Show a stored time as an aware datetime."""
    return datetime.fromtimestamp(value / SECOND, tz=timezone.utc)


def moment(value: Any) -> Micros | None:
    """Read a time as Celery has it in messages; None where it is none."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    return micros(aware.timestamp())


def new_id(now: Callable[[], Micros] = wall) -> str:
    """Mint an id that sorts by time: UUIDv7's layout, as 32 hexadecimal digits.

    Eighty random bits are fresh in every process, also after a fork: they come from the kernel.
    """
    random = int.from_bytes(os.urandom(10), "big")
    high = (now() // 1_000) << 80 | random
    versioned = (high & ~(0xF << 76)) | (0x7 << 76)
    return f"{(versioned & ~(0x3 << 62)) | (0x2 << 62):032x}"
