"""Addresses as Celery spells them, and which one is taken where none is set."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_replay import config
from celery_replay.exceptions import ConfigurationError
from celery_replay.runtime import open_store, store_url
from celery_replay.stores.redis import RedisStore
from celery_replay.stores.redis.address import connector, shown
from tests.django_store.builders import ask, ending
from tests.support.net import LOCALHOST, free_port
from tests.support.processes import LoggedProcess
from tests.support.redis_server import RedisServer, binary


def made(url: str, **options: Any) -> dict[str, Any]:
    """Return what a connection to this address is made with."""
    connection = connector(url, options)()
    names = ("host", "port", "db", "path", "username", "password")
    found = {name: getattr(connection, name, None) for name in names}
    return {**found, "kind": type(connection).__name__}


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("redis://host:7000/3", {"host": "host", "port": 7000, "db": 3, "kind": "Connection"}),
        ("redis://:p%40ss@host", {"host": "host", "port": 6379, "password": "p@ss"}),
        ("valkey://ann:pw@host/1", {"host": "host", "username": "ann", "db": 1, "kind": "Connection"}),
        ("rediss://host/0?ssl_cert_reqs=CERT_NONE", {"host": "host", "kind": "SSLConnection"}),
        ("valkeys://host/0", {"host": "host", "kind": "SSLConnection"}),
        ("unix:///tmp/redis.sock?db=2", {"path": "/tmp/redis.sock", "db": 2, "kind": "UnixDomainSocketConnection"}),
        ("redis+socket:///tmp/redis.sock?virtual_host=4", {"path": "/tmp/redis.sock", "db": 4}),
        ("socket:///tmp/redis.sock", {"path": "/tmp/redis.sock", "db": 0}),
    ],
)
def test_an_address_leads_where_celery_would_go(url: str, wanted: dict[str, Any]) -> None:
    found = made(url)
    assert {name: found[name] for name in wanted} == wanted


def test_a_server_that_does_not_answer_is_not_waited_for_long() -> None:
    connection = connector("redis://host", {})()
    assert (connection.socket_timeout, connection.socket_connect_timeout, connection.retry._retries) == (2, 2, 0)
    assert connector("redis://host", {"socket_timeout": 9})().socket_timeout == 9


@pytest.mark.parametrize("url", ["redis://host:port", "redis://host?no_such_option=1", "sentinel://host:26379"])
def test_an_address_that_can_not_be_meant_is_an_error_at_start(url: str) -> None:
    with pytest.raises(ConfigurationError, match="replay_store"):
        RedisStore(url)


def test_no_password_is_shown() -> None:
    assert shown("rediss://ann:pw@host:1/2?password=pw") == "rediss://host:1/2"
    assert shown("sentinel://:pw@one:1;sentinel://:pw@two:2") == "sentinel://one:1;sentinel://two:2"


def test_sentinels_say_which_server_it_is(private_redis: RedisServer, tmp_path: Path) -> None:
    with ExitStack() as stack:
        port = free_port()
        settings = tmp_path / "sentinel.conf"
        settings.write_text(f"port {port}\nsentinel monitor shop {LOCALHOST} {private_redis.port} 1\n")
        process = LoggedProcess([binary(), str(settings), "--sentinel"], tmp_path / "sentinel.log")
        stack.callback(process.kill)
        process.launch()
        process.wait_for(lambda: "monitor master shop" in process.log(), 10, "the sentinel watches")
        store = RedisStore(f"sentinel://{LOCALHOST}:{port}", master_name="shop")
        stack.callback(store.close_connections)
        of = ask()
        assert store.close(store.open(of).facts.job, ending(of)) == (True, ())


def conf(**settings: Any) -> Any:
    app = Celery("addresses", set_as_current=False)
    app.conf.update(settings)
    return app.conf


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({"broker_url": "redis://broker/0", "result_backend": "redis://backend/0"}, "redis://broker/0"),
        ({"broker_url": "amqp://broker//", "result_backend": "rediss://backend/0"}, "rediss://backend/0"),
        ({"broker_url": ["sentinel://a:1", "sentinel://b:1"]}, "sentinel://a:1"),
    ],
)
def test_the_store_is_the_redis_that_celery_uses(settings: dict[str, Any], url: str) -> None:
    assert config.redis_url(conf(**settings)) == url


def test_what_is_set_comes_first() -> None:
    found = conf(broker_url="redis://broker/0", replay_store="memory://")
    assert store_url(config.load(found), found) == "memory://"


BROKER, BACKEND = {"broker_url": "redis://here/0"}, {"broker_url": "amqp://", "result_backend": "redis://here/0"}
TLS = {"ssl_ca_certs": "ca"}


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({**BROKER, "broker_use_ssl": TLS}, TLS),
        ({**BROKER, "broker_transport_options": {"master_name": "m", "x": 1}}, {"master_name": "m"}),
        ({**BACKEND, "broker_use_ssl": TLS}, {}),
        ({**BACKEND, "redis_backend_use_ssl": TLS}, TLS),
        ({"broker_url": "redis://there/0", "broker_use_ssl": TLS}, {}),
    ],
)
def test_how_celery_connects_there_is_taken_over(settings: dict[str, Any], options: dict[str, Any]) -> None:
    assert config.redis_options(conf(**settings), "redis://here/0") == options


def test_the_retention_and_the_options_reach_the_store() -> None:
    found = conf(replay_store="redis://host/0", replay_retention=60, replay_options={"prefix": "shop"})
    store = open_store(config.load(found), found)
    assert isinstance(store, RedisStore)
    assert store.place == "redis://host/0, keys {shop}:*"
    assert store._keep_us == 60_000_000


def test_without_the_package_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from celery import Celery\n"
        "app = Celery(broker='memory://'); app.conf.replay_store = 'redis://host/0'\n"
        "from celery_replay.runtime import runtime_of\n"
        "try: runtime_of(app).store\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "celery-replay[redis]" in done.stdout, done.stderr
