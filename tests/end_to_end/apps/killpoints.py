"""Places where a process dies or pauses because a test wants it to, once for each job.

A test arms a place with a file in the folder that REPLAY_TEST_KILLS names; reaching the place takes the file away.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

CHILD = "child"
"""Kill this process alone, once its parent knows that it has the job."""
GROUP = "group"
"""Wait here until the test kills the whole worker."""
PAUSE = "pause"
"""Wait here until the test lets it go on."""


def arm(folder: Path, point: str, reference: str, how: str) -> None:
    """Let the process that reaches `point` with this job die or pause, once."""
    (folder / f"{point}@{reference}").write_text(how)


def let_go(folder: Path, reference: str) -> None:
    """Let a job's process go on that pauses."""
    (folder / f"gone_on@{reference}").touch()


def arrived(folder: Path, reference: str) -> bool:
    """Tell whether the job's process waits at its place."""
    return (folder / f"arrived@{reference}").exists()


def is_armed(folder: Path, point: str, reference: str) -> bool:
    """Tell whether no process has reached the place yet."""
    return (folder / f"{point}@{reference}").exists()


def accepted(reference: str) -> None:
    """Note that a job's parent knows which child has it; before that it would simply give the job to another child."""
    (_folder() / f"accepted@{reference}").touch()


def reach(point: str, reference: str) -> None:
    """Die or pause here if a test wants it."""
    folder = _folder()
    place = folder / f"{point}@{reference}"
    try:
        how = place.read_text()
        place.unlink()
    except FileNotFoundError:
        return
    if how == CHILD:
        while not (folder / f"accepted@{reference}").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"arrived@{reference}").touch()
    deadline = time.monotonic() + 600
    while how == GROUP or not (folder / f"gone_on@{reference}").exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{point}@{reference}: forgotten by its test")
        time.sleep(0.05)


def _folder() -> Path:
    return Path(os.environ["REPLAY_TEST_KILLS"])
