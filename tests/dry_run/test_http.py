"""What a task reads over HTTP is asked of the server once, and of the record in a dry run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import requests
from celery import Celery

from celery_replay import ReplayTask
from celery_replay.contrib.httpx import AsyncReplayTransport, ReplayTransport
from celery_replay.contrib.requests import ReplayAdapter
from celery_replay.dry_run.comparison import Ends
from celery_replay.dry_run.engine import DryRun, Engine
from celery_replay.dry_run.recording import recording_of
from celery_replay.dry_run.variation import Variation
from celery_replay.runtime import reset, use_store
from celery_replay.stores.memory import MemoryStore
from tests.support.counting_server import CountingServer

Answer = tuple[int, Any, str | None, str]


def by_requests(method: str, url: str) -> Answer:
    with requests.Session() as session:
        session.mount("http://", ReplayAdapter())
        answer = session.request(method, url, timeout=5)
    return answer.status_code, answer.json(), answer.headers["Content-Type"], answer.text


def by_httpx(method: str, url: str) -> Answer:
    with httpx.Client(transport=ReplayTransport()) as client:
        answer = client.request(method, url)
    return answer.status_code, answer.json(), answer.headers["Content-Type"], answer.text


def by_httpx_in_a_coroutine(method: str, url: str) -> Answer:
    async def ask() -> Answer:
        async with httpx.AsyncClient(transport=AsyncReplayTransport()) as client:
            answer = await client.request(method, url)
        return answer.status_code, answer.json(), answer.headers["Content-Type"], answer.text

    return asyncio.run(ask())


@pytest.fixture(params=[by_requests, by_httpx, by_httpx_in_a_coroutine])
def ask(request: pytest.FixtureRequest) -> Callable[[str, str], Answer]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def failed(ask: Callable[[str, str], Answer]) -> Iterator[Callable[..., DryRun]]:
    """Lend what records a job that asks and fails, and runs it again, mended."""
    app = Celery("http-shop", task_cls=ReplayTask, broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.update(replay_store="memory://", replay_eager="record")
    store, fails = MemoryStore(), [True]
    use_store(app, store)

    @app.task(name="asks", shared=False)
    def asks(method: str, urls: list[str]) -> list[Any]:
        found = [ask(method, url) for url in urls]
        if fails[0]:
            raise ValueError("after asking")
        return found

    def run(method: str, *urls: str) -> DryRun:
        assert asks.apply((method, list(urls))).failed()
        (job,) = store.find_jobs(limit=10)
        letter = store.letter(job.submission)
        assert letter is not None
        fails[0] = False
        with Engine(app) as engine:
            return engine.run(recording_of(store, job, letter.message))

    yield run
    reset(app)


def test_a_dry_run_gets_the_answers_that_were_given_then(
    failed: Callable[..., DryRun], counting_server: CountingServer
) -> None:
    counting_server.take_effect("/orders", "7")
    there, gone = f"{counting_server.url}/orders?reference=7", f"{counting_server.url}/orders?reference=8"
    ran = failed("GET", there, gone, there)
    assert ran.comparison.ends is Ends.WELL, ran.comparison.said
    assert ran.found is not None
    answers = [(status, body) for status, body, *_ in ran.found["result"]]
    assert answers == [
        (200, {"reference": "7", "count": 1}),
        (404, {"reference": "8", "count": 0}),
        (200, {"reference": "7", "count": 1}),
    ]
    assert {kind for _, _, kind, _ in ran.found["result"]} == {"application/json"}
    assert counting_server.requests("GET") == 3
    assert [pair.now.name for pair in ran.comparison.pairs if pair.now] == ["step GET 127.0.0.1"] * 3


def test_what_is_no_read_is_no_step_and_refused_in_a_dry_run(
    failed: Callable[..., DryRun], counting_server: CountingServer
) -> None:
    ran = failed("POST", f"{counting_server.url}/orders?reference=7")
    assert ran.comparison.ends is Ends.BLOCKED
    assert counting_server.requests("POST") == 1


def test_outside_of_a_task_it_is_a_client_as_any(
    ask: Callable[[str, str], Answer], counting_server: CountingServer
) -> None:
    assert ask("GET", f"{counting_server.url}/orders?reference=7")[:2] == (404, {"reference": "7", "count": 0})


async def together(*urls: str) -> list[int]:
    async with httpx.AsyncClient(transport=AsyncReplayTransport()) as client:
        return [answer.json()["count"] for answer in await asyncio.gather(*map(client.get, urls))]


def in_a_loop(*urls: str) -> list[int]:
    return asyncio.run(together(*urls))


def in_a_thread_s_loop(*urls: str) -> list[int]:
    """Hand coroutines to a loop that runs in another thread since before the body began."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        return asyncio.run_coroutine_threadsafe(together(*urls), loop).result(20)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


@pytest.mark.parametrize("way", [in_a_loop, in_a_thread_s_loop], ids=lambda way: way.__name__)
def test_answers_that_are_waited_for_together_are_each_its_own(
    counting_server: CountingServer, way: Callable[..., list[int]]
) -> None:
    counting_server.take_effect("/orders", "7")
    app = Celery("async-shop", task_cls=ReplayTask, broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.update(replay_store="memory://", replay_eager="record")
    store, fails = MemoryStore(), [True]
    use_store(app, store)
    urls = [f"{counting_server.url}/orders?reference={reference}" for reference in (7, 8, 7)]

    @app.task(name="asks", shared=False)
    def asks() -> list[int]:
        found = way(*urls)
        if fails[0]:
            raise ValueError("after asking")
        return found

    assert asks.apply().failed()
    (job,) = store.find_jobs(limit=10)
    letter = store.letter(job.submission)
    assert letter is not None
    fails[0] = False
    asked = counting_server.requests("GET")
    with Engine(app) as engine:
        ran = engine.run(recording_of(store, job, letter.message))
        live = engine.run(recording_of(store, job, letter.message), Variation(live=("GET 127.0.0.1",)))
    reset(app)
    assert (ran.comparison.ends, ran.found and ran.found["result"]) == (Ends.WELL, [1, 0, 1]), ran.comparison.said
    # What runs its own code is refused there, and told with its step.
    assert live.comparison.ends is Ends.BLOCKED
    assert "GET 127.0.0.1" in {one.step for one in live.report.blocked}
    assert counting_server.requests("GET") == asked == 3
