"""Where the server is: Celery's own spellings of a Redis URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit, urlunsplit

from redis import ConnectionPool
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from ...exceptions import ConfigurationError

_ALIASES = {"valkey": "redis", "valkeys": "rediss", "redis+socket": "unix", "socket": "unix"}
_PATIENCE_S = 2.0


def connector(url: str, options: Mapping[str, Any]) -> Callable[[], Any]:
    """Return what makes connections to this address, not yet connected.

    Args:
        url: as Celery has it for its broker.
        options: redis-py's options of a connection; `master_name` and `sentinel_kwargs` for Sentinel.

    Raises:
        ConfigurationError: nobody can make anything of the URL.
    """
    given = {
        "socket_timeout": _PATIENCE_S,
        "socket_connect_timeout": _PATIENCE_S,
        "retry": Retry(NoBackoff(), 0),
        "health_check_interval": 0,
        "protocol": 2,
        **options,
    }
    try:
        make = _sentinel(url, given) if url.startswith("sentinel://") else _direct(url, given)
        # It connects to nothing yet, but knows its options.
        make()
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"setting replay_store = {shown(url)!r}: {error}") from error
    return make


def _direct(url: str, options: Mapping[str, Any]) -> Callable[[], Any]:
    scheme, _, rest = url.partition("://")
    plain = f"{_ALIASES.get(scheme, scheme)}://{rest}"
    if plain.startswith("unix://"):
        plain = _unix(plain)
    else:
        parts = urlsplit(plain)
        # Celery writes CERT_REQUIRED where redis-py has required.
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if "ssl_cert_reqs" in query:
            query["ssl_cert_reqs"] = query["ssl_cert_reqs"].lower().removeprefix("cert_")
        plain = urlunsplit(parts._replace(query=urlencode(query)))
    make: Callable[[], Any] = ConnectionPool.from_url(plain, **options).make_connection
    return make


def _unix(url: str) -> str:
    """Put a socket's database where redis-py looks for it."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host = query.pop("virtual_host", "").strip("/")
    if host:
        query["db"] = host
    return f"unix://{parts.netloc}{parts.path}?{urlencode(query)}"


def _sentinel(url: str, options: Mapping[str, Any]) -> Callable[[], Any]:
    """Ask the sentinels for the server, for each connection anew."""
    servers = [urlsplit(part) for part in url.split(";") if part]
    given = dict(options)
    service = given.pop("master_name", "")
    if not service:
        raise ValueError('Sentinel needs the name of its service: replay_options = {"master_name": "…"}')
    asked = {"socket_timeout": _PATIENCE_S, **given.pop("sentinel_kwargs", {})}
    first = servers[0]
    database = first.path.strip("/")
    if database:
        given["db"] = int(database)
    if first.password:
        given["password"] = unquote(first.password)
    ask: Any = Sentinel
    sentinels = ask([(s.hostname or "localhost", s.port or 26379) for s in servers], sentinel_kwargs=asked, **given)
    make: Callable[[], Any] = sentinels.master_for(service).connection_pool.make_connection
    return make


def shown(url: str) -> str:
    """Return an address for people: without passwords, and without what comes after a question mark."""
    return ";".join(_without_password(part) for part in url.split(";"))


def _without_password(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    rest = rest.partition("?")[0]
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
