"""Settings: Celery settings named `replay_*`, so `CELERY_REPLAY_*` in a Django project."""

from __future__ import annotations

import difflib
import hashlib
import math
import os
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

from .clock import Micros, micros
from .exceptions import ConfigurationError
from .older_celery import restore_period

PREFIX = "replay_"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What can be set, with defaults. Durations in seconds."""

    store: str | None = None
    """`django`, `django://alias`, a Redis URL, `memory://` or `package.module:Class`. By default Django's database if
    the app is there, else the broker's or the result backend's Redis."""
    ledger: str | None = None
    """With `replay_journal`, in place of `replay_store`: a Redis URL. Everything in flight is decided there."""
    journal: str | None = None
    """`django` or `django://alias`: the database that keeps what happened, for Django's admin."""
    blobs: str | None = None
    """Where snapshots and other large values go soon after they were written: the absolute path of a folder,
    `storages://alias` of Django's `STORAGES`, a URL of fsspec's such as `s3://bucket/folder`, or
    `package.module:Class`. By default they stay in the store."""
    blob_options: dict[str, Any] = field(default_factory=dict)
    """Passed to what fsspec opens, or to the class."""
    lease_ttl: float = 60
    """How long an attempt may be silent before another one takes over; renewed every third of it."""
    lease_ttl_max: float = 600
    """No lease may be longer; a Redis that may have forgotten who has a resource gives it to nobody for that long."""
    canvas_ttl: float = 0
    """How long a closed attempt may take to send its callbacks on; 0: computed from Celery's chord settings."""
    retention: float = 7 * 86_400
    """How long a key is remembered: the window in which a duplicate is recognised."""
    detail_retention: float = 0
    """How long snapshots and events of jobs that succeeded are kept, if that is shorter; then only how many there were
    of which. 0: as long as the job."""
    poison_cap: int = 5
    """How many attempts in a row may die without closing before the job is dead-lettered."""
    requeue_delay: float = 5
    """How long a message waits that its job gave back by `Reject(requeue=True)`."""
    requeue_cap: int = 100
    """How many times in a row a job may do so before it is dead-lettered."""
    redelivery_deadline: float = 300
    """How long a broker without visibility timeout may take to bring a delivery again."""
    resend_deadline: float = 300
    """After how long a freed job that was published and never started is published again."""
    flush_interval: float = 1
    """How often buffered events are written while an attempt runs."""
    on_store_error: str | None = None
    """`open` or `closed`, for tasks that don't say; by default open if nothing is declared, else closed."""
    store_retry_delay: float = 5
    """After how long a job comes again that found the store down, where the policy is closed."""
    steward: str = "embedded"
    """`embedded`: every worker spawns one; `external`: embedded ones never lead; `off`: none is spawned."""
    eager: str = "bypass"
    """`bypass`: eager calls run without records; `record`: they go through the store."""
    exclude: tuple[str, ...] = ()
    """Names of tasks to leave alone; `*` at the end matches any ending."""
    message_lease: bool = True
    """Keep the visibility timeout of messages that this worker holds from running out."""
    trial_queue: str = "celery-replay"
    """The queue of the dry runs and forks that are asked for in the admin; empty: none can be. A worker does them that
    consumes it: `celery -A shop worker -Q celery-replay`."""
    trial_kernel: bool = True
    """Do no dry run from the admin where the kernel can't enforce the sandbox."""
    code_version: str = ""
    """Names the deployed code in traces and letters; by default the environment's REPLAY_CODE_VERSION."""
    spool_dir: str = ""
    """Where a CLOSE waits on disk while the store is down, and what Celery throws away until it is filed; by default
    the user's and app's own temporary folder."""
    capture: str = "keys"
    """`none`, `keys` or `full`: how much of a job's data goes into its trace, for tasks that don't say."""
    redact: tuple[str, ...] = ()
    """More names of secret fields; `*` at the beginning or the end matches any text."""
    sandbox_database: dict[str, Any] = field(default_factory=dict, repr=False)
    """Which of Django's databases dry runs have a shadow of, on PostgreSQL: what is otherwise than in their entries of
    `DATABASES`, such as `{"default": {"USER": "replay_reader"}}`. By default all are scratch databases, in SQLite."""
    app: str = ""
    """`package.module:app`: where `manage.py celery_replay` finds the app; by default the one the project loads."""
    options: dict[str, Any] = field(default_factory=dict)
    """Passed to the store."""

    @property
    def code(self) -> str:
        """The code version in force."""
        return self.code_version or os.environ.get("REPLAY_CODE_VERSION", "")

    @property
    def spool(self) -> str:
        """The spool folder in force."""
        return str(self.spool_dir)


def load(conf: Any) -> Settings:
    """Read the settings of an app.

    Args:
        conf: `app.conf`.

    Raises:
        ConfigurationError: a value is wrong; the message says which one and what it may be.
    """
    _warn_of_unknown(conf)
    given: dict[str, Any] = {"spool_dir": _default_spool(conf)}
    for option in fields(Settings):
        value = conf.get(PREFIX + option.name)
        # An empty path is what an unset environment variable leaves.
        if value is not None and (option.name, value) != ("spool_dir", ""):
            given[option.name] = _converted(option.name, value)
    settings = Settings(**given)
    for name, (good, wanted) in _CHECKS.items():
        value = getattr(settings, name)
        if not good(value):
            raise ConfigurationError(f"setting {PREFIX}{name} = {value!r}: must be {wanted}")
    check_places(settings)
    return settings


def check_places(settings: Settings) -> None:
    """See that the records have one place, or a ledger and a journal that can be one.

    Raises:
        ConfigurationError: the settings contradict one another.
    """
    store, ledger, journal = settings.store, settings.ledger, settings.journal
    if store and (ledger or journal):
        name = "ledger" if ledger else "journal"
        raise ConfigurationError(
            f"replay_store and replay_{name} are both set: take replay_store off to have two stores, or replay_ledger "
            "and replay_journal to have one"
        )
    if not journal:
        return
    if not ledger:
        raise ConfigurationError(
            f"replay_journal = {journal!r} has no ledger: set replay_ledger to the URL of a Redis, or keep all in the "
            f"database with replay_store = {journal!r} in its place"
        )
    if not is_redis(ledger):
        raise ConfigurationError(
            "setting replay_ledger: beside a journal it has to be the URL of a Redis, such as redis://host/0; to keep "
            f"all in one database set replay_store = {journal!r} and neither of them"
        )
    if journal.partition("://")[0] != "django":
        raise ConfigurationError(
            "setting replay_journal: must be django or django://alias, a database of the Django project; without one "
            "set replay_store to the URL of the Redis"
        )


def _warn_of_unknown(conf: Any) -> None:
    known = [option.name for option in fields(Settings)]
    for key in sorted(key for key in conf if isinstance(key, str)):
        _, ours, name = key.lower().partition(PREFIX)
        # Celery knows the app's namespace: it finds CELERY_REPLAY_STORE by our name, but not INSTANT_REPLAY_STORE.
        if not ours or name in known or conf.get(PREFIX + name) is None:
            continue
        meant = "".join(
            f": did you mean {PREFIX}{n}?" for n in difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        )
        warnings.warn(f"the setting {key} has no effect in this version{meant} [unknown-setting]", stacklevel=3)


def _broker_url(conf: Any) -> str:
    """Return where the worker's messages come from; the environment's and the command line's word counts."""
    url = getattr(conf, "broker_read_url", None) or conf.get("broker_url") or ""
    return str(url[0] if isinstance(url, (list, tuple)) else url)


REDIS = ("redis", "rediss", "sentinel", "unix", "redis+socket", "socket", "valkey", "valkeys")
"""Schemes of the URLs that lead to a Redis or Valkey server, as Celery and redis-py have them."""


def broker_scheme(conf: Any) -> str:
    """Name the kind of broker that the worker's messages come from: "redis", "amqp", "sqs"."""
    return _broker_url(conf).partition(":")[0].partition("+")[0].lower()


def _default_spool(conf: Any) -> str:
    """Name a folder that no other user and no other project has: a steward delivers what it finds to its own store."""
    store = conf.get(PREFIX + "store") or conf.get(PREFIX + "ledger")
    parts = (_broker_url(conf), store, os.environ.get("DJANGO_SETTINGS_MODULE"))
    project = hashlib.blake2b(repr(parts).encode(), digest_size=6).hexdigest()
    return str(Path(tempfile.gettempdir()) / f"celery-replay-spool-{os.getuid()}-{project}")


def _converted(name: str, value: Any) -> Any:
    if name in ("exclude", "redact") and isinstance(value, (str, list, set, frozenset)):
        return (value,) if isinstance(value, str) else tuple(value)
    if isinstance(value, timedelta) and name not in ("poison_cap", "requeue_cap"):
        return value.total_seconds()
    return value


def _number(least: float) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= least
    )


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def _names(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


def _patterns(value: Any) -> bool:
    return _names(value) and len(value) <= _MOST_PATTERNS and all(_PATTERN.fullmatch(pattern) for pattern in value)


def _text_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _one_of(*words: str | None) -> tuple[Callable[[Any], bool], str]:
    return (lambda value: value in words), " or ".join(str(word) for word in words if word)


_PATTERN = re.compile(r"\*?(?=[\w.-]*[^\W_])[\w.-]{2,100}\*?")
"""At least two characters: one would hide nearly everything."""
_MOST_PATTERNS = 200

_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "lease_ttl": (_number(1), "a number of seconds, 1 or more"),
    "lease_ttl_max": (_number(1), "a number of seconds, 1 or more"),
    "canvas_ttl": (_number(0), "a number of seconds"),
    "retention": (_number(1), "a number of seconds, longer than your slowest retry"),
    "detail_retention": (_number(0), "a number of seconds; 0 to keep all as long as the job"),
    "poison_cap": (_whole(1), "a whole number, 1 or more"),
    "requeue_delay": (_number(0), "a number of seconds"),
    "requeue_cap": (_whole(1), "a whole number, 1 or more"),
    "redelivery_deadline": (_number(0), "a number of seconds"),
    "resend_deadline": (_number(1), "a number of seconds, 1 or more"),
    "flush_interval": (_number(0.01), "a number of seconds, 0.01 or more"),
    "store_retry_delay": (_number(0), "a number of seconds"),
    "on_store_error": _one_of("open", "closed", None),
    "steward": _one_of("embedded", "external", "off"),
    "eager": _one_of("bypass", "record"),
    "capture": _one_of("none", "keys", "full"),
    "redact": (_patterns, "a name such as iban or *_number, or a list of them; * only at the beginning or the end"),
    "store": (_text_or_none, "django, django://alias, a Redis URL, memory:// or package.module:Class"),
    "ledger": (_text_or_none, "a Redis URL"),
    "journal": (_text_or_none, "django or django://alias"),
    "exclude": (_names, "a name, or a list of names; * at the end matches any ending"),
    "message_lease": (lambda value: isinstance(value, bool), "True or False"),
    "trial_queue": (lambda value: isinstance(value, str), "the name of a queue, or empty"),
    "trial_kernel": (lambda value: isinstance(value, bool), "True or False"),
    "code_version": (lambda value: isinstance(value, str), "text"),
    "app": (lambda value: isinstance(value, str), "text such as package.module:app"),
    "spool_dir": (lambda value: isinstance(value, (str, os.PathLike)), "a path"),
    "blobs": (_text_or_none, "an absolute path, storages://alias, a URL of fsspec's or package.module:Class"),
    "blob_options": (lambda value: isinstance(value, dict), "a dictionary of options"),
    "sandbox_database": (
        lambda value: isinstance(value, dict) and all(isinstance(one, dict) for one in value.values()),
        'a dictionary such as {"default": {"USER": "replay_reader", "PASSWORD": …}}',
    ),
    "options": (lambda value: isinstance(value, dict), "a dictionary of the store's arguments"),
}


def is_redis(url: str) -> bool:
    """Does a URL lead to a Redis or Valkey server?"""
    scheme, mark, _ = url.partition("://")
    return bool(mark) and scheme in REDIS


def redis_url(conf: Any) -> str | None:
    """Return the address of the Redis that Celery uses already: the broker's, else the result backend's."""
    return next((url for url in (_broker_url(conf), _backend_url(conf)) if is_redis(url)), None)


def redis_options(conf: Any, url: str) -> dict[str, Any]:
    """Return how Celery connects to that address, where it is the broker's or the result backend's."""
    transport, tls = conf.get("broker_transport_options"), conf.get("broker_use_ssl")
    if url != _broker_url(conf):
        if url != _backend_url(conf):
            return {}
        transport, tls = conf.get("result_backend_transport_options"), conf.get("redis_backend_use_ssl")
    named = {name: value for name, value in (transport or {}).items() if name in ("master_name", "sentinel_kwargs")}
    return {**named, **(tls if isinstance(tls, dict) else {})}


def _backend_url(conf: Any) -> str:
    return str(conf.get("result_backend") or "")


def visibility_timeout(conf: Any) -> float | None:
    """Return after how many seconds the broker takes a message's worker for dead; None where nothing says so."""
    scheme = broker_scheme(conf)
    default = 1800.0 if scheme == "sqs" else 3600.0 if scheme in REDIS else None
    given = (conf.get("broker_transport_options") or {}).get("visibility_timeout") or default
    return None if given is None else float(given)


def redelivery_us(conf: Any, settings: Settings) -> Micros:
    """Return how long after an owner's death its message may still come back.

    Redis and SQS bring it after the visibility timeout; kombu's defaults are 3,600 and 1,800 seconds. On Redis it is
    kombu in some worker that brings it, when it looks.
    """
    wait = restore_period(conf.get("broker_transport_options") or {}) if broker_scheme(conf) in REDIS else 0.0
    timeout = visibility_timeout(conf) or settings.redelivery_deadline
    return micros(timeout + max(wait + 10.0, timeout / 4))


def canvas_us(conf: Any, settings: Settings) -> Micros:
    """Return how long a closed attempt keeps the right to send its canvas on.

    It must outlast the claim that Celery's chord counter leaves behind when a worker dies while it publishes the
    chord's body (21 s with Celery's defaults).
    """
    if settings.canvas_ttl:
        return micros(settings.canvas_ttl)
    join = float(conf.get("result_chord_join_timeout") or 3.0)
    retry = conf.get("task_publish_retry_policy") or {}
    publishing = float(retry.get("max_retries") or 3) * float(retry.get("interval_max") or 1)
    return micros(max(30.0, 2 * (2 * join + publishing) + 10))
