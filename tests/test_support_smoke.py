"""The ground that the other tests stand on: real servers, real workers, effects counted from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import psycopg
import pytest
import redis
from celery import Celery
from pytest_celery import CeleryTestSetup

from tests.support import plain_app, postgres_server, redis_server, servers
from tests.support.counting_server import CountingServer
from tests.support.net import ServerUnavailable, answers, wait_until
from tests.support.workers import Workers

RESULT_TIMEOUT_S = 20
APP = "tests.support.plain_app"


@pytest.fixture
def app(clean_redis_url: str) -> Iterator[Celery]:
    """The producer's side of the plain app, on Redis."""
    with Celery("producer", broker=clean_redis_url, backend=clean_redis_url) as producer:
        yield producer


def _post(url: str, timeout_s: float = 5) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=timeout_s) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _get(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_redis_database_is_claimed_by_this_run_alone(redis_url: str) -> None:
    with ExitStack() as stack:
        second = redis_server.shared(stack)
        assert second != redis_url


def test_the_redis_database_of_a_run_that_was_killed_is_taken_over(
    private_redis: redis_server.RedisServer,
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    base = private_redis.url.rpartition("/")[0]
    with redis.Redis.from_url(private_redis.url) as client, redis.Redis.from_url(f"{base}/15") as left:
        client.set(redis_server.CLAIM_KEY.format(15), dead.pid)
        left.set("left", "behind")
        with ExitStack() as stack:
            assert redis_server.shared(stack, port=private_redis.port) == f"{base}/15"
            assert left.dbsize() == 0
        assert client.get(redis_server.CLAIM_KEY.format(15)) is None


def test_a_database_with_keys_in_it_is_never_taken(private_redis: redis_server.RedisServer) -> None:
    with redis.Redis.from_url(private_redis.url) as client:
        client.set("somebody's", "data")
    with ExitStack() as stack, pytest.raises(RuntimeError, match="name an empty one"):
        redis_server.named(private_redis.url, stack)


def test_a_private_redis_comes_back_on_its_port_under_a_new_run_id(
    private_redis: redis_server.RedisServer,
) -> None:
    with redis.Redis.from_url(private_redis.url) as client:
        first = client.info("server")["run_id"]
    private_redis.kill()
    assert not answers(private_redis.port)
    private_redis.start()
    with redis.Redis.from_url(private_redis.url) as client:
        assert client.info("server")["run_id"] != first


def test_postgresql_lends_a_database_that_can_be_written(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute("CREATE TABLE smoke (id int)")
        connection.execute("INSERT INTO smoke VALUES (1)")
        assert connection.execute("SELECT count(*) FROM smoke").fetchone() == (1,)
        connection.rollback()


def test_postgresql_from_the_wheel_starts_and_leaves_nothing_behind() -> None:
    with ExitStack() as stack:
        dsn = postgres_server.private(stack)
        with psycopg.connect(dsn) as connection:
            row = connection.execute("SELECT current_setting('data_directory')").fetchone()
        assert row is not None
        data_folder = Path(row[0])
        assert data_folder.exists()
    assert not data_folder.exists()


def test_a_required_server_that_cannot_be_had_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(servers.PORTS, "rabbitmq", 1)
    monkeypatch.setattr("tests.support.rabbitmq_server.shared", lambda stack: None)
    monkeypatch.delenv("REPLAY_RABBITMQ_URL", raising=False)
    monkeypatch.setenv("REPLAY_REQUIRED_SERVERS", "redis,rabbitmq")
    with pytest.raises(ServerUnavailable, match="start one on port 5672"):
        next(servers.rabbitmq_url())
    monkeypatch.setenv("REPLAY_REQUIRED_SERVERS", "redis")
    with pytest.raises(pytest.skip.Exception, match="start one on port 5672"):
        next(servers.rabbitmq_url())


def test_an_unknown_required_server_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAY_REQUIRED_SERVERS", "postgres")
    with pytest.raises(ServerUnavailable, match="postgresql"):
        servers.required()


def test_the_counting_server_counts_per_method_path_and_reference(counting_server: CountingServer) -> None:
    charge = f"{counting_server.url}/charges?reference=order:1"
    assert _get(charge) == 404
    assert [_post(charge), _post(charge)] == [201, 201]
    assert _post(f"{counting_server.url}/charges?reference=order:2") == 201
    assert _get(charge) == 200
    assert counting_server.effects("/charges", "order:1") == 2
    assert counting_server.requests("POST", "/charges") == 3
    assert counting_server.requests("GET", reference="order:1") == 2


def test_a_client_that_gives_up_has_had_its_effect_all_the_same(counting_server: CountingServer) -> None:
    counting_server.delay_s = 1
    with pytest.raises(TimeoutError):
        _post(f"{counting_server.url}/charges?reference=order:1", timeout_s=0.2)
    assert counting_server.effects("/charges", "order:1") == 1


def test_a_refusal_keeps_the_effect_away_unless_it_comes_after(counting_server: CountingServer) -> None:
    url = f"{counting_server.url}/charges?reference=order:1"
    counting_server.refuse(503, headers={"Retry-After": "1"})
    assert _post(url) == 503
    assert counting_server.effects("/charges", "order:1") == 0
    counting_server.refuse(500, after_effect=True)
    assert _post(url) == 500
    assert counting_server.effects("/charges", "order:1") == 1


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo", "gevent"])
def test_a_worker_of_each_pool_runs_a_task(pool: str, app: Celery, workers: Workers, clean_redis_url: str) -> None:
    workers.start(APP, pool=pool, broker_url=clean_redis_url, result_backend=clean_redis_url)
    result = app.send_task(plain_app.add.name, (2, 3))
    assert result.get(timeout=RESULT_TIMEOUT_S) == 5


def test_a_worker_runs_a_task_from_rabbitmq(
    rabbitmq_url: str, clean_redis_url: str, workers: Workers, queue_name: str
) -> None:
    workers.start(APP, queues=[queue_name], broker_url=rabbitmq_url, result_backend=clean_redis_url)
    with Celery("producer", broker=rabbitmq_url, backend=clean_redis_url) as producer:
        result = producer.send_task(plain_app.add.name, (2, 3), queue=queue_name)
        assert result.get(timeout=RESULT_TIMEOUT_S) == 5


def test_a_killed_pool_child_is_replaced_and_the_worker_goes_on(
    app: Celery, workers: Workers, clean_redis_url: str
) -> None:
    worker = workers.start(APP, broker_url=clean_redis_url, result_backend=clean_redis_url)
    first = app.send_task(plain_app.where.name).get(timeout=RESULT_TIMEOUT_S)
    assert worker.kill_pool() == [first]
    assert app.send_task(plain_app.where.name).get(timeout=RESULT_TIMEOUT_S) not in (first, worker.pid)


def test_a_killed_worker_leaves_no_process_behind(workers: Workers, clean_redis_url: str) -> None:
    worker = workers.start(APP, concurrency=2, broker_url=clean_redis_url)
    pids = [worker.pid, *worker.pool_pids()]
    assert len(pids) == 3
    worker.kill()
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), 5, "all processes gone")
    assert worker.returncode == -signal.SIGKILL


def test_orphans_of_a_killed_parent_are_reached(workers: Workers, clean_redis_url: str) -> None:
    worker = workers.start(APP, broker_url=clean_redis_url)
    (child,) = worker.pool_pids()
    os.kill(child, signal.SIGSTOP)
    worker.kill_parent()
    assert psutil.pid_exists(child)
    worker.kill()
    wait_until(lambda: not psutil.pid_exists(child), 5, "orphan gone")


def test_a_paused_worker_runs_nothing_until_it_is_resumed(app: Celery, workers: Workers, clean_redis_url: str) -> None:
    worker = workers.start(APP, broker_url=clean_redis_url, result_backend=clean_redis_url)
    worker.pause()
    result = app.send_task(plain_app.add.name, (1, 1))
    time.sleep(0.5)
    assert not result.ready()
    worker.resume()
    assert result.get(timeout=RESULT_TIMEOUT_S) == 2


def test_a_worker_stops_warm_and_starts_again_under_its_name(
    app: Celery, workers: Workers, clean_redis_url: str
) -> None:
    worker = workers.start(APP, broker_url=clean_redis_url, result_backend=clean_redis_url)
    assert worker.stop() == 0
    worker.start()
    assert app.control.ping(destination=[worker.hostname], timeout=5) == [{worker.hostname: {"ok": "pong"}}]


def test_a_worker_that_cannot_start_says_why(workers: Workers) -> None:
    with pytest.raises(RuntimeError, match="no_such_module"):
        workers.start("tests.no_such_module")


def test_an_effect_of_a_task_is_seen_from_outside(
    app: Celery, workers: Workers, clean_redis_url: str, counting_server: CountingServer
) -> None:
    workers.start(APP, broker_url=clean_redis_url, result_backend=clean_redis_url)
    url = f"{counting_server.url}/charges?reference=order:9"
    assert app.send_task(plain_app.effect.name, (url,)).get(timeout=RESULT_TIMEOUT_S) == 201
    assert counting_server.effects("/charges", "order:9") == 1


def test_pytest_celery_runs_a_task_without_docker(celery_setup: CeleryTestSetup) -> None:
    assert celery_setup.ready(control=True)
    result = celery_setup.app.send_task(plain_app.add.name, (20, 22))
    assert result.get(timeout=RESULT_TIMEOUT_S) == 42
    celery_setup.worker.assert_log_exists("succeeded")


def test_pytest_celery_can_kill_and_restart_its_worker(celery_setup: CeleryTestSetup) -> None:
    worker = celery_setup.worker
    assert worker.get_running_processes_info(["pid"])
    worker.kill()
    assert not worker.ready()
    worker.restart()
    assert celery_setup.app.send_task(plain_app.add.name, (1, 2)).get(timeout=RESULT_TIMEOUT_S) == 3


def test_no_docker_engine_can_be_asked_for(request: pytest.FixtureRequest) -> None:
    with pytest.raises(RuntimeError, match="asked for a container"):
        request.getfixturevalue("docker_client")


def test_the_header_names_every_server() -> None:
    assert [name for name in servers.PORTS if f"{name}: " in servers.overview()] == list(servers.PORTS)
