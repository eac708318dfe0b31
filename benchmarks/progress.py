"""What a run says while it goes on."""

from __future__ import annotations

import sys
import time

_told = 0.0


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def progress(text: str) -> None:
    """Overwrite one line of a terminal; say nothing in a pipe but now and then."""
    global _told
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text:<70}\r" if text else f"\r{'':<70}\r")
    elif text and time.monotonic() - _told > 30:
        sys.stderr.write(f"{text}\n")
        _told = time.monotonic()
    sys.stderr.flush()
