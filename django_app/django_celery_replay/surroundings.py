"""What a dry run has in place of a Django project's databases, mail, caches and files; its process ends with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from celery_replay.dry_run.cache_record import CacheRecord
from celery_replay.redaction import redact_text
from celery_replay.snapshots.tree import Tree

Data = dict[str, Any]

_IN_MEMORY = "django.core.files.storage.InMemoryStorage"
_NOT_STATE = ("django_celery_replay", "django_celery_results", "django_celery_beat", "contenttypes", "migrations")
"""Apps whose tables say nothing about a job's work."""
_SOME = 20
"""Messages and differences that a report names; beyond that it counts."""


class DjangoSurroundings:
    """Scratch databases, mail that is kept, caches and files in memory.

    Its imports wait: Celery makes its task class before Django has loaded the models.
    """

    _filled: frozenset[str] | set[str] = frozenset()
    """Tables that have recorded rows."""

    def make_template(self, folder: Path) -> Any:
        """Make the tables of all models, once; each run copies that file. And load, once, what each needs."""
        import django.core.cache.backends.locmem
        import django.core.files.storage.memory
        import django.core.mail.backends.locmem  # noqa: F401

        from . import sandbox_cache, scratch  # noqa: F401

        return scratch.template(folder)

    def enter(self, template: Any, folder: Path, state: Tree | None, caches: CacheRecord) -> Data:
        """Go over to what is in the folder, in which the rows are that were recorded."""
        from django.apps import apps

        from . import scratch
        from .scratch import base

        scratch.replace_databases(folder, template)
        _replace_mail()
        _replace_caches(caches)
        _replace_files()
        _replace_threads()
        if state is None:
            base.tables_used.clear()
            return {"database": "empty, as no state was recorded: declare state="}
        filled = scratch.fill(state)
        rows = sum(filled.rows.values())
        self._filled = {apps.get_model(label)._meta.db_table for label in filled.rows}
        base.tables_used.clear()
        # Of all tables, what concerns those that the state is in.
        general = [one for one in template.differences if one.model in ("", *filled.rows)]
        return {
            "database": f"{rows} row{'s' * (rows != 1)} as recorded",
            "unlike_it": _some([*map(str, (*general, *filled.differences))]),
        }

    def told(self) -> Data:
        """Say which mail was sent, and of which tables nothing was recorded though they were asked."""
        from django.apps import apps
        from django.core import mail

        from .scratch import base

        own = {model._meta.db_table for model in apps.get_models() if model._meta.app_label not in _NOT_STATE}
        read = sorted((base.tables_used & own) - self._filled)
        return {
            "not_recorded": _some(read),
            "mail": _some([redact_text(f"{one.subject} to {len(one.recipients())}") for one in mail.outbox]),
        }


def _some(lines: list[str]) -> str:
    more = f"; and {len(lines) - _SOME} more" if len(lines) > _SOME else ""
    return "; ".join(lines[:_SOME]) + more


def _replace_mail() -> None:
    from django.conf import settings
    from django.core import mail
    from django.core.mail.utils import DNS_NAME

    # Else it would be looked up.
    name: Any = DNS_NAME
    name._fqdn = "localhost"
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    mail.outbox = []


def _replace_caches(record: CacheRecord) -> None:
    """Forget the project's caches, without a word to their servers: the parent's connections are not ours to close."""
    from asgiref.local import Local
    from django.conf import settings
    from django.core.cache import caches

    from . import sandbox_cache

    backend = sandbox_cache.use(record)
    settings.CACHES = {
        alias: {"BACKEND": backend, "LOCATION": alias, "VERSION": settings.CACHES.get(alias, {}).get("VERSION", 1)}
        for alias in {*settings.CACHES, "default"}
    }
    handler: Any = caches
    handler._settings = handler.settings = handler.configure_settings(None)
    handler._connections = Local(handler.thread_critical)


def _replace_files() -> None:
    from django.conf import settings
    from django.core.files.storage import default_storage, storages
    from django.utils.functional import empty

    settings.STORAGES = {alias: {"BACKEND": _IN_MEMORY} for alias in {*settings.STORAGES, "default"}}
    handler: Any = storages
    handler._backends, handler._storages = None, {}
    vars(handler).pop("backends", None)
    default: Any = default_storage
    default._wrapped = empty


def _replace_threads() -> None:
    """Give synchronous code that coroutines call another thread: the parent's, if it had one, is not here."""
    from asgiref.sync import SyncToAsync

    SyncToAsync.single_thread_executor = ThreadPoolExecutor(max_workers=1)
