"""What is asked of a store, and how long it may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from statistics import median

from celery_replay.clock import SECOND
from celery_replay.records import Letter
from celery_replay.states import Effect, LetterState, Reason
from celery_replay.stores.base import Store
from celery_replay.trace import timeline

LIST_MS = 300.0
LETTER_MS = 200.0
ROUNDS = 25
WARM_UP = 2
DAY = 24 * 3600 * SECOND
ABSENT = "no such words"


@dataclass(frozen=True, kw_only=True)
class Question:
    """One thing to be measured."""

    name: str
    ask: Callable[[], object]
    most_ms: float | None = None
    """The mark that it has to keep."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How long it took."""

    name: str
    median_ms: float
    slowest_ms: float
    cpu_ms: float
    """Of this process alone: where it is far less than the median, the database or a busy machine took the rest."""
    found: int | None
    """How many records came, of a list."""
    most_ms: float | None

    @property
    def verdict(self) -> str:
        """Say whether the mark was kept."""
        if self.most_ms is None:
            return ""
        return "kept" if self.median_ms < self.most_ms else "missed"


def measure(questions: Sequence[Question], rounds: int, tell: Callable[[str], None]) -> list[Answer]:
    """Ask all questions in turn, round by round: so a busy moment of the machine is not one question's bad luck."""
    times: dict[str, list[float]] = {question.name: [] for question in questions}
    spent: dict[str, list[float]] = {question.name: [] for question in questions}
    found: dict[str, int | None] = {}
    for number in range(-WARM_UP, rounds):
        tell(f"round {max(number + 1, 0)} of {rounds}")
        for question in questions:
            begun, begun_cpu = time.perf_counter(), time.process_time()
            answer = question.ask()
            if number >= 0:
                times[question.name].append((time.perf_counter() - begun) * 1e3)
                spent[question.name].append((time.process_time() - begun_cpu) * 1e3)
            found[question.name] = len(answer) if isinstance(answer, Sequence) else None
    return [
        Answer(
            name=question.name,
            median_ms=median(times[question.name]),
            slowest_ms=max(times[question.name]),
            cpu_ms=median(spent[question.name]),
            found=found[question.name],
            most_ms=question.most_ms,
        )
        for question in questions
    ]


def lists(store: Store) -> list[Question]:
    """Ask for letters and groups: what is frequent, what is rare, what is not there, and what is far back."""
    newest = store.letters(1)[0]
    middle = store.letters(1, before=(newest.last_failed - 45 * DAY, ""))[0]
    end = (middle.last_failed, middle.submission)
    big, rare = _groups(store)
    tasks = sorted({group.operation for group in store.groups(10_000, unresolved=False)})
    letters = {
        "letters": {},
        "letters, a page from the middle": {"before": end},
        "letters of a task": {"operation": big.operation},
        "letters of a task, a page from the middle": {"operation": big.operation, "before": end},
        "letters of a task that has none": {"operation": "shop.tasks.gone"},
        "letters in state open": {"state": LetterState.OPEN},
        "letters in state replay_pending, which is rare": {"state": LetterState.REPLAY_PENDING},
        "letters of the largest group": {"group_id": big.group_id},
        "letters of a small group": {"group_id": rare.group_id},
        "letters of the largest group in a rare state": {"group_id": big.group_id, "state": LetterState.REPLAY_PENDING},
        "letters for a frequent reason": {"reason": Reason.EXCEPTION},
        "letters for a rare reason": {"reason": Reason.RETRY_NEVER_CAME},
        "letters for a reason that none has": {"reason": Reason.REVOKED},
        "letters by effect": {"effect": Effect.PROVEN},
        "letters of one operation": {"operation_id": f"{(newest.last_failed // DAY - 45):032}"},
        "letters of a task for a reason": {"operation": tasks[-1], "reason": Reason.WORKER_LOST},
        "letters with a frequent error": {"error": "Timeout"},
        "letters with an error that one has": {"error": middle.error_message},
        "letters with an error that none has": {"error": ABSENT},
        "letters of a task with an error that none has": {"operation": big.operation, "error": ABSENT},
    }
    groups = {
        "groups": {},
        "groups of a task": {"operation": big.operation},
        "groups for a reason": {"reason": Reason.WORKER_LOST},
        "groups, decided ones too": {"unresolved": False},
        "groups, a page from the middle": {"before": (middle.last_failed, "")},
    }
    asks = {name: partial(store.letters, **how) for name, how in letters.items()}
    asks |= {name: partial(_with_trends, store, **how) for name, how in groups.items()}
    return [Question(name=name, ask=ask, most_ms=LIST_MS) for name, ask in asks.items()]


def _groups(store: Store) -> tuple[object, object]:
    groups = sorted(store.groups(10_000, unresolved=False), key=lambda group: group.filed)
    return groups[-1], groups[len(groups) // 10]


def _with_trends(store: Store, **how: object) -> Sequence[object]:
    groups = store.groups(**how)
    store.trend([group.group_id for group in groups], store.now() - 7 * DAY)
    return groups


def letter_page(store: Store) -> Question:
    """Ask for all that is to be shown of one letter, of another one each time."""
    some = cycle(store.letters(200))
    return Question(name="one letter and all about it", ask=lambda: _whole(store, next(some)), most_ms=LETTER_MS)


def _whole(store: Store, letter: Letter) -> None:
    found = store.letter(letter.submission)
    job = store.job(letter.submission)
    assert found is not None
    assert job is not None
    store.attempts(job.submission)
    store.steps(job.identity)
    timeline(store, job.trace_id)
    store.history(submission=job.submission)
    group = store.group(found.group_id)
    assert group is not None
    store.trend([group.group_id], store.now() - 7 * DAY)
