"""What a run publishes is run in the same sandbox, to a bound; nothing of it reaches the outside."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import celery
import pytest
from celery import Celery, chain, chord, group

from celery_replay import ReplayTask, step
from celery_replay.dry_run.comparison import Ends
from celery_replay.dry_run.engine import DryRun, Engine
from celery_replay.dry_run.recording import recording_of
from celery_replay.dry_run.variation import Variation
from celery_replay.runtime import reset, runtime_of, use_store
from celery_replay.stores.memory import MemoryStore
from tests.support.counting_server import CountingServer

FOLLOWED = Variation(follow=3)
Ran = Callable[..., DryRun]
charged: list[str] = []


@step(side_effect=True, key="charge:{who}")
def charge(who: str) -> str:
    charged.append(who)
    return f"receipt of {who}"


@pytest.fixture
def ran(empty_memory_broker: None) -> Iterator[Ran]:
    """Return what records a job that fails after it has published, and runs it again with another body."""
    app = Celery("family", task_cls=ReplayTask, broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.update(replay_store="memory://", replay_eager="record")
    store = MemoryStore()
    use_store(app, store)
    bodies: list[Callable[[Any], Any]] = []

    @app.task(name="family.root", bind=True, shared=False, max_retries=5)
    def root(self: Any) -> Any:
        return bodies[-1](self)

    @app.task(name="family.child", shared=False)
    def child(who: str) -> str:
        return charge(who)

    @app.task(name="family.again", bind=True, shared=False)
    def again(self: Any) -> None:
        self.app.tasks["family.again"].delay()

    @app.task(name="family.reaches", shared=False)
    def reaches(url: str) -> None:
        urllib.request.urlopen(urllib.request.Request(url, b"", method="POST"), timeout=5).close()

    @app.task(name="family.total", shared=False)
    def total(parts: list[str]) -> int:
        return len(parts)

    @app.task(name="family.plain", base=celery.Task, shared=False)
    def plain() -> None: ...

    def run(now: Callable[[Any], Any], how: Variation = FOLLOWED, *, then: Any = None) -> DryRun:
        def fail(task: Any) -> None:
            if then is not None:
                then(task)
            raise ValueError("then")

        bodies.append(fail)
        assert root.apply().failed()
        (job,) = store.find_jobs(operation="family.root", limit=1)
        letter = store.letter(job.submission)
        assert letter is not None
        bodies.append(now)
        runtime_of(app).heartbeat.drain()
        before, done = store.find_jobs(limit=100), list(charged)
        with Engine(app, timeout_s=30) as engine:
            found = engine.run(recording_of(store, job, letter.message, depth=how.follow), how)
        assert store.find_jobs(limit=100) == before
        assert charged == done
        return found

    yield run
    reset(app)


def told(found: DryRun, *names: str) -> list[Any]:
    assert found.found is not None, found.report
    return [tuple(one.get(name) for name in names) for one in found.found["followed"]]


def test_without_being_asked_nothing_is_followed(ran: Ran) -> None:
    found = ran(lambda task: task.app.tasks["family.child"].delay("ann").id, Variation())
    assert found.found is not None
    assert (found.found["followed"], found.found["published"]) == (None, ["family.child"])


def test_children_are_told_each_with_its_outcome(ran: Ran) -> None:
    found = ran(lambda task: task.app.tasks["family.total"].delay(["a"]).id)
    assert told(found, "task", "depth", "outcome", "result") == [("family.total", 1, "succeeded", 1)]
    assert found.found is not None
    assert told(found, "task_id") == [(found.found["result"],)]


def test_a_child_gets_what_the_original_s_child_was_given_then(ran: Ran) -> None:
    def publish(task: Any) -> None:
        # Eager here, so that it has run by the time the record is read.
        task.app.tasks["family.child"].apply_async(("ann",), task_id="child-of-then")
        task.app.tasks["family.child"].apply(("ann",), task_id="child-of-then")

    found = ran(
        lambda task: [task.app.tasks["family.child"].delay(who) for who in ("ann", "bob")] and None, then=publish
    )
    assert told(found, "recorded", "outcome", "result", "missing") == [
        (True, "succeeded", "receipt of ann", []),
        # Nothing is known of bob, and ann's receipt is not his.
        (False, "failed", None, ["charge"]),
    ]
    assert found.comparison.ends is Ends.WELL


def test_a_chain_goes_on_and_a_chord_comes_together(ran: Ran) -> None:
    def publish(task: Any) -> None:
        child, total = task.app.tasks["family.child"], task.app.tasks["family.total"]
        chain(child.s("ann"), total.s()).delay()
        chord(group(child.s("bob"), child.s("cid")), total.s()).delay()

    found = ran(publish, Variation(follow=3, live=("charge",)))
    assert sorted(told(found, "task", "depth", "result"), key=str) == [
        ("family.child", 1, "receipt of ann"),
        ("family.child", 1, "receipt of bob"),
        ("family.child", 1, "receipt of cid"),
        ("family.total", 2, 14),
        ("family.total", 2, 2),
    ]


def test_a_retry_is_the_next_delivery_of_the_same_job(ran: Ran) -> None:
    def try_three_times(task: Any) -> int:
        if task.request.retries < 2:
            raise task.retry(countdown=60)
        return int(task.request.retries)

    found = ran(try_three_times)
    assert found.comparison.ends is Ends.RETRIES
    assert told(found, "task", "depth", "outcome", "result") == [
        ("family.root", 1, "retry_scheduled", None),
        ("family.root", 2, "succeeded", 2),
    ]


def test_what_publishes_itself_for_ever_ends_at_the_bound(ran: Ran) -> None:
    def begin(task: Any) -> None:
        for _ in range(3):
            task.app.tasks["family.again"].delay()

    deep = told(ran(begin), "depth", "outcome", "not_followed")
    assert deep[-1] == (4, None, "it is deeper than 3")
    wide = told(ran(begin, Variation(follow=20, follow_jobs=4)), "outcome", "not_followed")
    assert wide.count(("succeeded", None)) == 4
    assert wide[-1] == (None, "4 jobs have been run")


def test_a_child_that_reaches_out_is_refused(ran: Ran, counting_server: CountingServer) -> None:
    found = ran(lambda task: task.app.tasks["family.reaches"].delay(f"{counting_server.url}/asked?reference=1").id)
    assert told(found, "task", "outcome") == [("family.reaches", "failed")]
    assert found.comparison.ends is Ends.BLOCKED
    assert counting_server.requests() == 0


def test_what_is_no_job_of_ours_is_told_as_not_followed(ran: Ran) -> None:
    def publish(task: Any) -> None:
        task.app.tasks["family.plain"].delay()
        task.app.send_task("unheard of")
        task.app.control.broadcast("shutdown")

    assert told(ran(publish), "task", "not_followed") == [
        ("family.plain", "its task is no ReplayTask"),
        ("unheard of", "there is no such task in today's code"),
        ("a message to celery.pidbox", "it is no job"),
    ]


def test_a_message_that_is_none_of_celery_s_ends_nothing(ran: Ran) -> None:
    def publish(task: Any) -> None:
        with task.app.producer_pool.acquire() as producer:
            for headers in (
                {"task": "child", "id": "a"},
                {"task": "child", "id": "b", "timelimit": "soon"},
                {"task": 5},
            ):
                producer.publish(5, serializer="json", routing_key="celery", headers=headers)
        task.app.tasks["family.total"].delay(["a"])

    found = ran(publish)
    assert found.comparison.ends is Ends.WELL, found.report
    assert told(found, "task", "outcome")[-1] == ("family.total", "succeeded")
    assert [one for one in told(found, "outcome") if one == ("succeeded",)] == [("succeeded",)]
