"""Jobs that did not fail can be run again, too, where their arguments are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from celery import Celery

from celery_replay import ReplayTask, current_attempt
from celery_replay.cli.runs import recorded
from celery_replay.dry_run.bundle import exported, imported
from celery_replay.dry_run.comparison import Ends
from celery_replay.dry_run.engine import Engine
from celery_replay.dry_run.recording import Recording
from celery_replay.dry_run.variation import AS_RECORDED, Variation
from celery_replay.replay.message import PayloadUnreadable
from celery_replay.runtime import reset, runtime_of, use_store
from celery_replay.stores.memory import MemoryStore

Lab = Callable[..., tuple[Recording, Callable[[Variation], Any]]]


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Return what lets a job succeed, and gives its recording and what runs it again."""
    app = Celery("good-shop", task_cls=ReplayTask, broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.update(replay_store="memory://", replay_eager="record")
    use_store(app, MemoryStore())

    def run(*args: Any, **options: Any) -> tuple[Recording, Callable[[Variation], Any]]:
        @app.task(name="greet", shared=False, **options)
        def greet(who: Any, *more: Any, password: str = "", **rest: Any) -> list[Any]:
            attempt = current_attempt()
            assert attempt is not None
            return [who, *more, rest, [attempt.now().isoformat() for _ in range(2)]]

        done = greet.apply(args, {"password": "hunter2-hunter2", "mood": "good"})
        assert done.successful()
        recording = recorded(runtime_of(app), done.id)

        def again(variation: Variation = AS_RECORDED) -> Any:
            with Engine(app) as engine:
                return engine.run(recording, variation)

        again.first = done.result  # type: ignore[attr-defined]
        return recording, again

    yield run
    reset(app)


def test_arguments_that_are_in_the_trace_are_taken_from_there(lab: Lab) -> None:
    recording, again = lab("ann", 5, capture="full")
    ran = again()
    assert (ran.comparison.ends, ran.comparison.said) == (Ends.WELL, "it succeeds, as it did")
    assert ran.found["result"][:3] == ["ann", 5, {"mood": "good"}]
    assert "redacted, so give it by --set: password" in recording.told
    assert again(Variation(arguments={"who": "bob"})).found["result"][0] == "bob"


def test_large_arguments_are_read_from_where_they_were_put(lab: Lab) -> None:
    _, again = lab("ann" * 2_000, capture="full")
    assert again().found["result"][0] == "ann" * 2_000


def test_where_they_are_not_kept_it_says_what_would_have_kept_them(lab: Lab) -> None:
    with pytest.raises(PayloadUnreadable, match='capture="full"'):
        lab("ann")


def test_times_that_the_body_was_told_are_told_again_also_from_a_file(lab: Lab) -> None:
    recording, again = lab("ann", capture="full")
    then = again.first[-1]  # type: ignore[attr-defined]
    assert then[0] < then[1]
    assert datetime.fromisoformat(then[0]).utcoffset() is not None
    assert again().found["result"][-1] == then
    by_file, _ = imported(exported(recording))
    assert [event.at for event in by_file.events if event.name == "time_read"] == [
        event.at for event in recording.events if event.name == "time_read"
    ]
