"""What a dry run has in place of a Django project's databases, mail, caches and files; its process ends with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
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


@dataclass(frozen=True, kw_only=True)
class Template:
    """What is made once."""

    scratch: Any
    shadows: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """By the aliases of their databases."""


class DjangoSurroundings:
    """Scratch databases, or shadows of those that the settings name; mail that is kept, caches and files in memory.

    Its imports wait: Celery makes its task class before Django has loaded the models.
    """

    _filled: frozenset[str] | set[str] = frozenset()
    """Tables that have recorded rows."""
    _copied: Collection[str] | None = None
    """Tables that shadows have; None where there are none."""

    def make_template(self, folder: Path, *, strict: bool) -> Template:
        """Make the tables of all models, once; each run copies that file. And load, once, what each needs.

        Raises:
            ShadowUnavailable: a shadow can't be had, or is not enforced by its database.
        """
        import django.core.cache.backends.locmem
        import django.core.files.storage.memory
        import django.core.mail.backends.locmem  # noqa: F401

        from . import conf, sandbox_cache, scratch  # noqa: F401

        setting = conf.sandbox_database()
        if not setting:
            return Template(scratch=scratch.template(folder))
        from .shadow import places

        return Template(shadows=places.probe(setting, strict=strict), scratch=scratch.template(folder))

    def layers(self, template: Template) -> str:
        """Say as what roles the shadows are reached."""
        told = "; ".join(map(str, template.shadows.values()))
        return f"database: {told}" if told else ""

    def prepare(self, template: Template) -> Collection[int]:
        """Connect to the databases that have a shadow."""
        if not template.shadows:
            return ()
        from .shadow import session

        return session.open_all(template.shadows)

    def enter(
        self,
        template: Template,
        folder: Path,
        state: Tree | None,
        caches: CacheRecord,
        declared: Callable[[], Iterable[Any]],
    ) -> Data:
        """Go over to what is in the folder, in which the rows are that were recorded."""
        from . import scratch
        from .scratch import base

        scratch.replace_databases(folder, template.scratch, _entries(template.shadows))
        _replace_mail()
        _replace_caches(caches)
        _replace_files()
        _replace_threads()
        differences: Iterable[Any] = ()
        if template.shadows:
            from .shadow import start

            differences, self._copied = start.begin_all(state, declared), start.copied()
        if state is None:
            base.tables_used.clear()
            empty = "empty" if self._copied is None else "without recorded rows"
            return {"database": f"{empty}, as no state was recorded: declare state="}
        return self._fill(state, template.scratch.differences, differences)

    def _fill(self, state: Tree, of_scratch: Iterable[Any], of_shadows: Iterable[Any]) -> Data:
        from django.apps import apps

        from . import scratch
        from .scratch import base

        filled = scratch.fill(state)
        rows = sum(filled.rows.values())
        self._filled = {apps.get_model(label)._meta.db_table for label in filled.rows}
        base.tables_used.clear()
        # Of all tables, what concerns those that the state is in.
        here = {label for label in filled.rows if apps.get_model(label)._meta.db_table not in (self._copied or ())}
        general = [one for one in of_scratch if one.model in {"", *here} and (here or self._copied is None)]
        return {
            "database": f"{rows} row{'s' * (rows != 1)} as recorded",
            "unlike_it": _some([*map(str, (*general, *of_shadows, *filled.differences))]),
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
            **self._shadows_told(own),
            "mail": _some([redact_text(f"{one.subject} to {len(one.recipients())}") for one in mail.outbox]),
        }

    def _shadows_told(self, own: Collection[str]) -> Data:
        if self._copied is None:
            return {}
        from .shadow import start

        return start.told(own)


def _entries(shadows: Mapping[str, Any]) -> Mapping[str, Data]:
    if not shadows:
        return {}
    from .shadow import base

    return {alias: base.entry(one.entry, alias) for alias, one in shadows.items()}


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
