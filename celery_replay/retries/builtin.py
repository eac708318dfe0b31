"""The rules that every task has, after its own. By names, so that nothing has to be installed for them."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from .. import exceptions as ours
from ..states import Category
from .databases import DATABASE
from .http import HTTP
from .rules import Judgement, Rule, asked, rule


def _of_itself(error: BaseException, made: int) -> Judgement | None:
    told = getattr(type(error), "replay_category", None)
    if told is None:
        return None
    return Judgement(category=Category(told), rule=_ITSELF.name, because="says so itself", retry_after_s=asked(error))


_ITSELF = Rule("the error's replay_category", _of_itself)

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ENOMEM)
_AWAY = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)

BUILT_IN: Sequence[Rule] = (
    _ITSELF,
    rule(Category.UNKNOWN_OUTCOME, ours.UnknownOutcome, name="unknown outcome"),
    rule(Category.VALIDATION, ours.KeyConflict, name="key conflict"),
    rule(Category.VALIDATION, ours.PostconditionFailed, name="post-condition"),
    rule(Category.CONCURRENCY, ours.VersionConflict, ours.FenceRefused, name="lost race"),
    rule(Category.PERMANENT, ours.EffectNotAllowed, name="effect not allowed"),
    rule(Category.POISON, ours.PoisonJob, ours.RequeuedTooOften, ours.LostTooOften, name="poison"),
    rule(Category.DEPENDENCY, ours.StoreUnavailable, name="store away"),
    rule(Category.PERMANENT, "celery.exceptions.MaxRetriesExceededError", "celery.exceptions.NotRegistered",
         "celery.exceptions.ImproperlyConfigured", name="Celery: for good"),
    rule(Category.TRANSIENT, "celery.exceptions.SoftTimeLimitExceeded", "billiard.exceptions.SoftTimeLimitExceeded",
         "celery.exceptions.TimeoutError", name="Celery: out of time"),
    rule(Category.DEPENDENCY, "kombu.exceptions.OperationalError", "celery.exceptions.BackendError",
         "amqp.exceptions.ConnectionError", name="broker or result backend"),
    HTTP,
    DATABASE,
    # Before its transaction is committed a row is not there yet for a task that was sent within it.
    rule(Category.TRANSIENT, "django.core.exceptions.ObjectDoesNotExist", attempts=1, name="Django: not there yet"),
    rule(Category.PERMANENT, "django.core.exceptions.ObjectDoesNotExist", "django.core.exceptions.PermissionDenied",
         "django.core.exceptions.ImproperlyConfigured", name="Django: for good"),
    rule(Category.VALIDATION, "django.core.exceptions.ValidationError", "django.core.exceptions.SuspiciousOperation",
         "django.db.utils.IntegrityError", "django.db.utils.DataError", name="Django: wrong data"),
    rule(Category.VALIDATION, "pydantic_core._pydantic_core.ValidationError", "pydantic.errors.PydanticUserError",
         "rest_framework.exceptions.ValidationError", "marshmallow.exceptions.ValidationError",
         "jsonschema.exceptions.ValidationError", name="validation libraries"),
    rule(Category.CONCURRENCY, "redis.exceptions.LockError", "redis.exceptions.WatchError", name="Redis: lost race"),
    rule(Category.TRANSIENT, "redis.exceptions.TryAgainError", "redis.exceptions.TimeoutError", name="Redis: later"),
    rule(Category.DEPENDENCY, "redis.exceptions.ConnectionError", "redis.exceptions.ReadOnlyError",
         "redis.exceptions.OutOfMemoryError", "redis.exceptions.ClusterDownError",
         "redis.exceptions.MasterDownError", name="Redis: away"),
    rule(Category.DEPENDENCY, "urllib3.exceptions.NewConnectionError", name="HTTP: refused"),
    rule(Category.TRANSIENT, "requests.exceptions.Timeout", "requests.exceptions.ChunkedEncodingError",
         "httpx.TimeoutException", "httpx.RemoteProtocolError", "httpx.ReadError", "httpx.WriteError",
         "urllib3.exceptions.TimeoutError", "urllib3.exceptions.ProtocolError",
         "aiohttp.client_exceptions.ServerDisconnectedError", "aiohttp.client_exceptions.ClientPayloadError",
         name="HTTP: broke off"),
    rule(Category.DEPENDENCY, "requests.exceptions.ConnectionError", "httpx.NetworkError", "httpx.ProxyError",
         "urllib3.exceptions.MaxRetryError",
         "aiohttp.client_exceptions.ClientConnectionError", "botocore.exceptions.HTTPClientError",
         "urllib.error.URLError", name="HTTP: away"),
    rule(Category.PERMANENT, "requests.exceptions.InvalidURL", "requests.exceptions.MissingSchema",
         "httpx.InvalidURL", "httpx.UnsupportedProtocol", name="HTTP: wrong address"),
    rule(Category.DEPENDENCY, "django.db.utils.OperationalError", "django.db.utils.InterfaceError",
         name="database away"),
    rule(Category.DEPENDENCY, ConnectionRefusedError, "socket.gaierror", "socket.herror", name="network: away"),
    rule(Category.DEPENDENCY, OSError, errno=_AWAY, name="network: unreachable"),
    rule(Category.TRANSIENT, ConnectionError, TimeoutError, "ssl.SSLError", EOFError, "http.client.IncompleteRead",
         name="network: broke off"),
    rule(Category.TRANSIENT, OSError, errno=_EXHAUSTED, name="machine: exhausted"),
    rule(Category.TRANSIENT, MemoryError, attempts=1, name="machine: out of memory"),
)  # fmt: skip
"""In their order: the first that matches counts. The narrow ones come first."""
