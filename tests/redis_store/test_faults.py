"""A Redis that answers, but not as it should: each way is told with what mends it, and is over when that is done."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from celery_replay.exceptions import ConfigurationError, StoreUnavailable
from celery_replay.states import Verdict
from celery_replay.steward import see_that_it_works
from celery_replay.stores.redis import RedisStore
from tests.django_store.builders import ask, ending
from tests.end_to_end.stage import wait_for
from tests.support.net import free_port
from tests.support.redis_server import RedisServer
from tests.support.redis_stores import make_redis_store

Server = redis.Redis


@dataclass
class Ground:
    """A server of the test's own, and the folder that it saves to."""

    server: RedisServer
    client: Server
    folder: Path


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with ExitStack() as stack:
        folder = tmp_path / "server"
        folder.mkdir()
        server = RedisServer(folder, "--save", "3600 1000000", "--appendonly", "no", "--lua-time-limit", "50")
        stack.callback(server.kill)
        server.start()
        yield Ground(server, stack.enter_context(redis.Redis.from_url(server.url)), folder)


@contextmanager
def read_only(ground: Ground) -> Iterator[None]:
    ground.client.replicaof("127.0.0.1", "1")
    yield
    ground.client.replicaof("NO", "ONE")


@contextmanager
def limited(setting: str, ground: Ground) -> Iterator[None]:
    ground.client.config_set(setting, 1)
    yield
    ground.client.config_set(setting, 0)


full = partial(limited, "maxmemory")
without_replicas = partial(limited, "min-replicas-to-write")


@contextmanager
def can_not_save(ground: Ground) -> Iterator[None]:
    shutil.rmtree(ground.folder)
    ground.client.bgsave()
    wait_for(lambda: ground.client.info("persistence")["rdb_last_bgsave_status"] == "err", "a save that fails")
    yield
    ground.client.config_set("stop-writes-on-bgsave-error", "no")


@contextmanager
def busy(ground: Ground) -> Iterator[None]:
    def turn() -> None:
        with redis.Redis.from_url(ground.server.url, socket_timeout=30) as client, suppress(redis.RedisError):
            client.eval("while true do end", 0)

    def is_busy() -> bool:
        try:
            return not ground.client.ping()
        except redis.RedisError as error:
            return "BUSY" in str(error)

    thread = threading.Thread(target=turn)
    thread.start()
    wait_for(is_busy, "a script that does not end")
    yield
    ground.client.script_kill()
    thread.join()


FAULTS = {
    "it is a replica": read_only,
    "it is full": full,
    "it can't save to its disk": can_not_save,
    "too few replicas": without_replicas,
    "a script of somebody's": busy,
}


@pytest.mark.parametrize("said", FAULTS)
def test_a_server_that_can_not_serve_now_is_unavailable_until_it_can(ground: Ground, said: str) -> None:
    store = make_redis_store(ground.server.url)
    of = ask("running")
    job = store.open(of).facts.job
    with FAULTS[said](ground):
        for call in (lambda: store.open(ask("new")), lambda: store.close(job, ending(of)), lambda: store.lead("s", 1)):
            with pytest.raises(StoreUnavailable, match=f"can't serve now: {said}") as raised:
                call()
            assert not raised.value.sent
        # It is no reason for a worker not to start.
        see_that_it_works(make_redis_store(ground.server.url))
    assert store.close(job, ending(of)) == (True, ())
    assert store.open(ask("new")).verdict is Verdict.RUN


def test_a_server_that_loads_its_data_is_waited_for(tmp_path: Path) -> None:
    options = ("--save", "3600 1000000", "--loading-process-events-interval-bytes", "1024")
    server = RedisServer(tmp_path, *options, "--key-load-delay", "500")
    server.start()
    with redis.Redis.from_url(server.url, retry=Retry(NoBackoff(), 0)) as client, ExitStack() as stack:
        stack.callback(server.kill)
        store = make_redis_store(server.url)
        job = store.open(ask("running")).facts.job
        assert job is not None
        client.eval("for i = 1, 6000 do redis.call('SET', 'k' .. i, i) end", 0)
        client.save()
        server.kill()
        server.launch()
        wait_for(lambda: _loads(client), "the beginning of the load")
        with pytest.raises(StoreUnavailable, match="can't serve now: it is loading its data"):
            store.open(ask("new"))
        wait_for(lambda: not _loads(client), "the end of the load")
        assert store.open(ask("new")).verdict is Verdict.RUN
        assert store.job("running") == job


def _loads(client: Server) -> bool:
    try:
        return not client.ping()
    except redis.BusyLoadingError:
        return True
    except redis.ConnectionError:
        return False


def test_a_node_of_a_cluster_that_is_down_is_unavailable(tmp_path: Path) -> None:
    # By default that is its own port and 10,000 more, which need not be one.
    server = RedisServer(tmp_path, "--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--save", "")
    server.start()
    try:
        with pytest.raises(StoreUnavailable, match="its cluster is down"):
            make_redis_store(server.url).open(ask())
    finally:
        server.kill()


# What somebody has to mend


def wants_a_password(client: Server) -> dict[str, Any]:
    client.config_set("requirepass", "s3cret")
    return {}


def knows_another_password(client: Server) -> dict[str, Any]:
    client.acl_setuser("shop", enabled=True, passwords=["+s3cret"], keys=["*"], commands=["+@all"])
    return {"username": "shop", "password": "0ther"}


def forbids_scripts(client: Server) -> dict[str, Any]:
    return _user(client, keys=["*"], commands=["+@all", "-evalsha", "-eval"])


def forbids_the_keys(client: Server) -> dict[str, Any]:
    return _user(client, keys=["shop:*"], commands=["+@all"])


def forbids_what_a_script_does(client: Server) -> dict[str, Any]:
    return _user(client, keys=["*"], commands=["+@all", "-xadd"])


def _user(client: Server, **rules: Any) -> dict[str, Any]:
    client.acl_setuser("shop", enabled=True, passwords=["+s3cret"], **rules)
    return {"username": "shop", "password": "s3cret"}


REFUSALS = {
    wants_a_password: "user name or password",
    knows_another_password: "user name or password",
    forbids_scripts: "its ACL forbids something",
    forbids_the_keys: "its ACL forbids something",
    forbids_what_a_script_does: "its ACL forbids something",
}


@pytest.mark.parametrize("forbids", REFUSALS)
def test_a_server_that_is_not_set_up_for_us_is_an_error_that_says_what_to_mend(
    ground: Ground, forbids: Callable[[Server], dict[str, Any]]
) -> None:
    store: RedisStore = make_redis_store(ground.server.url, **forbids(ground.client))
    with pytest.raises(ConfigurationError, match=REFUSALS[forbids]) as raised:
        store.open(ask())
    said = str(raised.value)
    assert str(ground.server.port) in said
    assert "s3cret" not in said
    assert "0ther" not in said


def test_a_worker_does_not_start_at_such_a_server(ground: Ground) -> None:
    store = make_redis_store(ground.server.url, **knows_another_password(ground.client))
    with pytest.raises(ConfigurationError, match="user name or password"):
        see_that_it_works(store)


def test_rights_that_are_taken_away_and_given_back_cost_nothing_but_time(ground: Ground) -> None:
    store = make_redis_store(ground.server.url, **_user(ground.client, keys=["*"], commands=["+@all"]))
    of = ask("running")
    job = store.open(of).facts.job
    forbids_scripts(ground.client)
    with pytest.raises(ConfigurationError, match="its ACL forbids something"):
        store.close(job, ending(of))
    _user(ground.client, keys=["*"], commands=["+@all"])
    assert store.close(job, ending(of)) == (True, ())
