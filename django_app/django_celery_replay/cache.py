"""Django's caches, so that what a task reads there is noted in its trace.

CACHES = {
"default": {
"BACKEND": "django_celery_replay.cache.RecordedCache",
"LOCATION": "redis://…",
"OPTIONS": {"of": "django.core.cache.backends.redis.RedisCache"},
}
}
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from celery_replay import cache_read

NOTHING: Any = object()


class RecordedCache:
    """Makes a cache of the backend that `OPTIONS` names under `of`, with all else as it is configured.

    What is made is a subclass of that backend, and has all that it has: a wrapper would hide the locks and patterns of
    somebody's backend, and from Django's own commands what it is.
    """

    def __new__(cls, location: Any, params: dict[str, Any]) -> Any:
        """Make it."""
        options = dict(params.get("OPTIONS") or {})
        of = options.pop("of", None)
        try:
            kind = import_string(of) if isinstance(of, str) else None
        except ImportError as error:
            raise ImproperlyConfigured(f'CACHES: OPTIONS["of"] = {of!r} can\'t be imported: {error}') from error
        if kind is None:
            raise ImproperlyConfigured('CACHES: RecordedCache needs OPTIONS["of"], the dotted name of a cache backend')
        made = recording(kind)(location, {**params, "OPTIONS": options})
        made.replay_alias = _alias(location, params)
        return made


def _alias(location: Any, params: dict[str, Any]) -> str:
    """Find the name that the project has for a cache: Django does not tell. Two of the same settings are the same."""
    wanted = (location, params)
    for alias, given in settings.CACHES.items():
        rest = {name: value for name, value in given.items() if name not in ("BACKEND", "LOCATION")}
        if (given.get("LOCATION", ""), rest) == wanted:
            return str(alias)
    return "default"


@cache
def recording(kind: type) -> Any:
    """Return a subclass of a backend that notes what is read."""
    return type(f"Recorded{kind.__name__}", (_Recorded, kind), {"__module__": __name__, "__doc__": kind.__doc__})


class Noting:
    """Notes reads in the trace of the running attempt, if there is one."""

    replay_alias = "default"
    version: Any

    def note(self, key: Any, version: Any, found: Any, *, known: bool = True) -> None:
        """Note what was found.

        Args:
            known: this is what was found, and not only that something was.
        """
        hit = found is not NOTHING
        which = self.version if version is None else version
        if known:
            cache_read(key, found if hit else None, hit=hit, version=which, cache=self.replay_alias)
        else:
            cache_read(key, _UNSEEN, hit=hit, version=which, cache=self.replay_alias)


class _Unseen:
    """Something that was found, and not looked at."""


_UNSEEN = _Unseen()


class _Recorded(Noting):
    """Goes before a backend's class. The asynchronous ways lead through these."""

    def get(self, key: Any, default: Any = None, version: Any = None, *args: Any, **kwargs: Any) -> Any:
        backend: Any = super()
        found = backend.get(key, NOTHING, version, *args, **kwargs)
        self.note(key, version, found)
        return default if found is NOTHING else found

    def get_many(self, keys: Iterable[Any], version: Any = None, *args: Any, **kwargs: Any) -> Any:
        backend: Any = super()
        asked = list(keys)
        found = backend.get_many(asked, version, *args, **kwargs)
        for key in asked:
            self.note(key, version, found.get(key, NOTHING))
        return found

    def has_key(self, key: Any, version: Any = None, *args: Any, **kwargs: Any) -> bool:
        backend: Any = super()
        found = bool(backend.has_key(key, version, *args, **kwargs))
        self.note(key, version, found or NOTHING, known=False)
        return found
