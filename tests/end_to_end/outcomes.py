"""Every way in which a job can end, and what is recorded of it. The docs have the same table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

POOLS = ("prefork", "threads", "gevent", "solo")
TABLE = """
outcome | acknowledged | pool | attempts | job | dead letter | canvas | body's letter
ends well | early, late | all | succeeded | succeeded | | link, chord |
exception | early, late, kept on failure | all | failed | failed | exception | errback, chord error | chord_failed
exception, error callback of the old kind | early | all | failed | failed | exception | errback, chord error | chord_failed
post-condition that does not hold | early, late, kept on failure | all | failed_validation | failed_validation | postcondition | errback, chord error | chord_failed
soft time limit | early, late | prefork | failed | failed | soft_time_limit | errback, chord error | chord_failed
soft time limit | early, late | threads, gevent, solo | succeeded | succeeded | | link, chord |
hard time limit | early, late | prefork, gevent | cut off | lost | hard_time_limit | errback, chord error | chord_failed
hard time limit | brought back, retried | prefork, gevent | cut off | lost | hard_time_limit | errback, chord error | chord_failed
hard time limit | kept on timeout | prefork | 3 x cut off | failed | hard_time_limit | errbacks, chord error | chord_failed
hard time limit | early, kept on timeout | threads, solo | succeeded | succeeded | | link, chord |
retries exhausted | early, late | all | 2 x retry_scheduled, failed | failed | exception | errback, chord error | chord_failed
autoretry exhausted | early, late | all | 2 x retry_scheduled, failed | failed | exception | errback, chord error | chord_failed
Ignore | early, late | all | ignored | ignored | | |
replaced | early, late | all | superseded, succeeded | succeeded | | link, chord |
Reject | early, late | all | failed | failed | rejected | errback, chord error | chord_failed
Reject with requeue, once | early, late | all | requeued, succeeded | succeeded | | link, chord |
Reject with requeue, always | early, late | all | 2 x requeued, failed | failed | requeued | errback, chord error | chord_failed
child killed | early, late | prefork | cut off | lost | worker_lost | errback, chord error | chord_failed
child killed | brought back | prefork | 3 x cut off | failed | poison | errback, chord error | chord_failed
child killed | retried | prefork | 2 x cut off | lost | worker_lost | errback, chord error | chord_failed
child killed, once | brought back, retried | prefork | cut off, succeeded | succeeded | | link, chord |
`sys.exit()` | early, late | all | cut off | lost | worker_lost | errback, chord error | chord_failed
`sys.exit()` | brought back | all | 3 x cut off | failed | poison | errback, chord error | chord_failed
`sys.exit()` | retried | all | 2 x cut off | lost | worker_lost | errback, chord error | chord_failed
`MemoryError` | early, late | all | failed | failed | out_of_memory | errback, chord error | chord_failed
no memory left | early, late | prefork | failed | failed | out_of_memory | errback, chord error | chord_failed
cold shutdown | early | prefork | cut off | lost | interrupted | | chord_failed
cold shutdown | late | prefork | cut off, succeeded | succeeded | | link, chord |
revoked before it began | early | all | | revoked | | chord error | chord_failed
revoked with SIGTERM | early, late | prefork, gevent | cut off | revoked | | chord error | chord_failed
revoked with SIGKILL | early, late | prefork, gevent | cut off | revoked | | chord error | chord_failed
expired in its queue | early | all | | expired | | chord error | chord_failed
result that is not JSON | early, late | all | succeeded | succeeded, result lost | | errback, chord error | chord_failed
exception that can't be unpickled | early, late | all | failed | failed | exception | errback, chord error | chord_failed
the same, given to `retry()` | early, late | all | retry_scheduled, failed | failed | exception | errback, chord error | chord_failed
copy of a success, skipped by Celery | late | all | succeeded | succeeded | | link, chord |
publishing fails | early | prefork | | | | |
eager call | early | prefork | | | | |
direct call | early | prefork | | | | |
unknown task | early | all | | lost | unknown_task | |
unknown task, message of protocol 1 | early | all | | lost | unknown_task | |
unknown content type | early | all | | lost | undecodable | |
content type that is not accepted | early | all | | lost | undecodable | |
broken JSON | early | all | | lost | undecodable | |
bytes that are no text | early | all | | lost | undecodable | |
JSON nested without end | early | all | | lost | undecodable | |
unknown compression | early | all | | lost | undecodable | |
broken compression | early | all | | lost | undecodable | |
empty body | early | all | | lost | undecodable | |
body that is a number | early | all | | lost | undecodable | |
body that is a text | early | all | | lost | undecodable | |
body of two parts | early | all | | lost | undecodable | |
body that is a mapping | early | all | | lost | undecodable | |
kwargs that are a list | early | all | | lost | undecodable | |
args that are a number | early | all | | lost | undecodable | |
canvas that is a list | early | all | | lost | undecodable | |
no task id | early | all | | lost | undecodable | |
no headers | early | all | | lost | undecodable | |
task name that is a list | early | all | | lost | undecodable | |
ETA that is no time | early | all | | lost | undecodable | |
ETA beyond all time | early | all | | lost | undecodable | |
expiry that is no time | early | all | | lost | undecodable | |
time limit that is a number | early | all | | lost | undecodable | |
time limits that are texts | early | all | | lost | undecodable | |
time limit beyond all numbers | early | all | | lost | undecodable | |
stamps that are a number | early | all | | lost | undecodable | |
body that only the parent can read | early | prefork | | lost | undecodable | |
"""  # noqa: E501 - a table
WORDS = {"cut off": ("lost", "interrupted", "unknown", "revoked", "refused")}
"""An attempt that is cut off has no time, or just enough of it, to say so itself; by then its job may be over."""


@dataclass(frozen=True)
class Cell:
    """One outcome under one way of acknowledgement in one pool."""

    outcome: str
    acknowledged: str
    pool: str
    attempts: str
    job: str
    letter: str
    canvas: str
    body: str

    def __str__(self) -> str:
        return re.sub(r"[^\w]+", "-", f"{self.outcome} {self.acknowledged} {self.pool}").strip("-").lower()

    @property
    def expected(self) -> tuple[str, str, str, str, str]:
        """What is to be seen in the end."""
        return self.attempts, self.job, self.letter, self.canvas, self.body


def lines() -> list[list[str]]:
    """Split the table."""
    return [[part.strip() for part in line.split("|")] for line in TABLE.strip().splitlines()]


def cells() -> Iterator[Cell]:
    """Yield the table's cells."""
    for outcome, acknowledged, pools, *expected in lines()[1:]:
        for way in acknowledged.split(", "):
            for pool in POOLS if pools == "all" else pools.split(", "):
                yield Cell(outcome, way, pool, *expected)


def counted(words: list[str]) -> str:
    """Write a list with repetitions counted."""
    shown: list[tuple[int, str]] = []
    for word in words:
        if shown and shown[-1][1] == word:
            shown[-1] = (shown[-1][0] + 1, word)
        else:
            shown.append((1, word))
    return ", ".join(f"{count} x {word}" if count > 1 else word for count, word in shown)


def attempts(outcomes: list[str]) -> str:
    """Say how attempts ended, in the table's words."""
    told = {word: shown for shown, words in WORDS.items() for word in words}
    return counted([told.get(outcome, outcome) for outcome in outcomes])


def canvas(effects: dict[str, int]) -> str:
    """Say what was called of a canvas; more than once is plural."""
    called = [(word, effects[what]) for what, word in CANVAS.items() if what in effects]
    return ", ".join(word if count == 1 else f"{word}s" for word, count in called)


CANVAS = {"link": "link", "errback": "errback", "chord": "chord", "chord-error": "chord error"}


def markdown() -> str:
    """Write the table as the docs have it."""
    rows = [f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |") for cells in lines()]
    return "\n".join([rows[0], "|---" * len(lines()[0]) + "|", *rows[1:]])
