"""What one app shares within a process: settings, store, heartbeat, and what is known about the worker."""

from __future__ import annotations

import os
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, cast

import celery
import kombu

from . import config, headers, redaction
from .clock import Micros, micros
from .exceptions import ConfigurationError
from .forms import Forms, forms_of
from .headers import Stamp
from .heartbeat import Heartbeat
from .policy import TaskPolicy, compile_policy
from .records import StepRecord
from .serialization import digest
from .spool import Spool
from .stores.base import Store
from .stores.journaled import JournaledStore
from .stores.ledger import Ledger
from .stores.memory import MemoryStore
from .stores.places import open_place

_NOTHING: Mapping[str, Any] = {}
_runtimes: weakref.WeakKeyDictionary[Any, Runtime] = weakref.WeakKeyDictionary()
_creating = threading.Lock()


class Understudy(Protocol):
    """Stands in for the outside in a dry run."""

    def comes_to(self, moment: str) -> bool:
        """Note that the body comes to a step, or to a snapshot; return whether its state is to be captured there."""

    def plays(self, asked: StepRecord) -> bool:
        """Say whether this stands in for a call; else its own code runs."""

    def output(self, asked: StepRecord) -> str:
        """Give the recorded output of a step's side effect in place of doing it, or raise what it raised."""

    def now(self) -> Micros | None:
        """Give the next time that the body was told then; None where it was told no more."""

    def doing(self, step: str) -> AbstractContextManager[object]:
        """Note for the while which step is being done."""


class Runtime:
    """The parts that an app's attempts share. Built lazily; forgotten and built anew after a fork."""

    def __init__(self, app: Any) -> None:
        self.app = weakref.proxy(app)
        self.settings = config.load(app.conf)
        redaction.learn(self.settings.redact)
        self.canvas_us = config.canvas_us(app.conf, self.settings)
        self.redelivery_us = config.redelivery_us(app.conf, self.settings)
        self.resend_us = micros(self.settings.resend_deadline)
        self.keep_us = micros(self.settings.retention)
        self.heartbeat = Heartbeat(lambda: self.store, self.settings.flush_interval)
        self.spool = Spool(self.settings.spool)
        self.hostname = socket.gethostname()
        self.pid = os.getpid()
        self.code = {
            "code": self.settings.code,
            "celery": celery.__version__,
            "kombu": kombu.__version__,
            "python": ".".join(map(str, sys.version_info[:3])),
        }
        self.understudy: Understudy | None = None
        """In a dry run, what stands in for the outside."""
        self._policies: dict[str, TaskPolicy] = {}
        self._forms: dict[str, Forms] = {}
        self._store: Store | None = None
        self._opening = threading.Lock()

    @property
    def store(self) -> Store:
        """The store in force, opened at first use."""
        if self._store is None:
            with self._opening:
                if self._store is None:
                    self._store = open_store(self.settings, self.app.conf)
        return self._store

    @property
    def bypasses_eager(self) -> bool:
        """Do eager calls run without records?"""
        return self.settings.eager == "bypass"

    @cached_property
    def _fanouts(self) -> frozenset[str]:
        """Exchanges that give every worker a copy of its own."""
        exchanges = (queue.exchange for queue in self.app.amqp.queues.values())
        return frozenset(e.name for e in exchanges if e is not None and e.type == "fanout")

    def stamp(self, task_name: str, fields: Mapping[str, Any], worker: str) -> Stamp:
        """Name a received message's submission; a broadcast is one for each worker, since each shall run it."""
        stamp = headers.identify(task_name, fields)
        exchange = (fields.get("delivery_info") or {}).get("exchange")
        if exchange and exchange in self._fanouts:
            return replace(stamp, submission=digest(stamp.submission, worker))
        return stamp

    def policy(self, task: Any) -> TaskPolicy:
        """Return a task's compiled policy."""
        found = self._policies.get(task.name)
        if found is None:
            found = self._policies[task.name] = compile_policy(task, self.settings)
        return found

    def use_policy(self, policy: TaskPolicy) -> None:
        """Take other options of a task than it declares, for as long as this process lives."""
        self._policies[policy.operation] = policy
        self._forms.pop(policy.operation, None)

    def forms(self, policy: TaskPolicy) -> Forms:
        """Return what a task's attempts in this process have in common."""
        found = self._forms.get(policy.operation)
        if found is None:
            found = self._forms[policy.operation] = forms_of(self, policy)
        return found

    def forget(self) -> None:
        """Let go of what must not be shared with a parent process. Stores see to their connections themselves."""
        self.pid = os.getpid()
        self._forms = {}
        self.heartbeat = Heartbeat(lambda: self.store, self.settings.flush_interval)
        self._opening = threading.Lock()


def plain_app(app: Any) -> Any:
    """Return the app behind a proxy such as `current_app`."""
    return app._get_current_object() if hasattr(app, "_get_current_object") else app


def runtime_of(app: Any) -> Runtime:
    """Return the app's runtime."""
    app = plain_app(app)
    found = _runtimes.get(app)
    if found is None:
        with _creating:
            found = _runtimes.get(app)
            if found is None:
                found = _runtimes[app] = Runtime(app)
    return found


def reset(app: Any) -> None:
    """Forget an app's runtime, so that changed settings take effect; what it had buffered is written."""
    runtime = _runtimes.pop(app, None)
    if runtime is not None:
        runtime.heartbeat.drain()


def use_store(app: Any, store: Store | None) -> Store | None:
    """Make an app use this very store, or with None the one that its settings name; return what it had."""
    runtime = runtime_of(app)
    before, runtime._store = runtime._store, store
    return before


def is_serving() -> bool:
    """Does a job run in this process that was delivered to it?"""
    return any(runtime.heartbeat.is_serving() for runtime in list(_runtimes.values()))


def drain_all() -> None:
    """Write what the process has buffered, before it ends."""
    for runtime in list(_runtimes.values()):
        runtime.heartbeat.drain()


def _after_fork() -> None:
    global _creating
    _creating = threading.Lock()
    for runtime in list(_runtimes.values()):
        runtime.forget()


os.register_at_fork(after_in_child=_after_fork)


def open_store(settings: config.Settings, conf: Any = _NOTHING) -> Store:
    """Open the store that the settings name.

    Args:
        conf: `app.conf`: what is not set is found there.

    Raises:
        ConfigurationError: none is named and none can be inferred, or the name leads nowhere.
    """
    store = _open_store(settings, conf)
    if settings.blobs:
        store.elsewhere = open_place(settings.blobs, settings.blob_options)
    return store


def _open_store(settings: config.Settings, conf: Any) -> Store:
    config.check_places(settings)
    url = store_url(settings, conf)
    if not settings.journal:
        return _open(url, settings, conf)
    # The options are the ledger's: that is the store of every job.
    journal = _open(settings.journal, replace(settings, options={}), conf)
    return JournaledStore(cast(Ledger, _open(url, settings, conf, journal)), journal)


def _open(url: str, settings: config.Settings, conf: Any, journal: Store | None = None) -> Store:
    scheme, _, rest = url.partition("://")
    if scheme == "memory":
        return MemoryStore()
    if config.is_redis(url):
        given = {"retention": settings.retention, "lease_ttl_max": settings.lease_ttl_max}
        found = {**given, **config.redis_options(conf, url)}
        # Where there is a journal, it also remembers which tokens were given.
        told = {"notes": True, "marks": journal} if journal is not None else {}
        return _factory("redis")(url, **{**found, **settings.options, **told})
    make = _factory(scheme if scheme in _ALIASES else url)
    arguments = dict(settings.options)
    if rest:
        arguments["alias"] = rest
    return make(**arguments)


_ALIASES = {"django": "django_celery_replay.opening:open_store", "redis": "celery_replay.stores.redis:RedisStore"}


def _factory(name: str) -> Callable[..., Store]:
    from kombu.utils.imports import symbol_by_name

    try:
        found: Callable[..., Store] = symbol_by_name(_ALIASES.get(name, name))
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f'setting replay_store = {name!r} can\'t be loaded ({error}); use "django", "django://alias", '
            '"redis://host/0" (with celery-replay[redis] installed), "memory://" or "package.module:Class"'
        ) from error
    return found


def store_url(settings: config.Settings, conf: Any = _NOTHING) -> str:
    """Return the store's name, or the ledger's.

    It is the one that is set, else Django's database, else the Redis that Celery uses.
    """
    if settings.store or settings.ledger:
        return str(settings.store or settings.ledger)
    django_apps = sys.modules.get("django.apps")
    if django_apps is not None and django_apps.apps.ready and django_apps.apps.is_installed("django_celery_replay"):
        return "django"
    found = config.redis_url(conf)
    if found is not None:
        return found
    raise ConfigurationError(
        "celery-replay has no store: in a Django project add 'django_celery_replay' to INSTALLED_APPS, "
        'else set replay_store = "redis://host/0", which is not needed where the broker is a Redis; '
        "see docs/how-to/choose-a-store.md"
    )
