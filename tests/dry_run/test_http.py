"""What a task reads over HTTP is asked of the server once, and of the record in a dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import requests
from celery import Celery

from celery_replay import ReplayTask
from celery_replay.contrib.httpx import ReplayTransport
from celery_replay.contrib.requests import ReplayAdapter
from celery_replay.dry_run.comparison import Ends
from celery_replay.dry_run.engine import DryRun, Engine
from celery_replay.dry_run.recording import recording_of
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


@pytest.fixture(params=[by_requests, by_httpx])
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
