"""The project's tables in an SQLite file, made once and copied for each run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db.models import CheckConstraint, Index, Model, UniqueConstraint

from .base import ENGINE, DatabaseWrapper, SchemaEditor
from .differences import Difference, Differences, Kind

_NAME = "template.sqlite3"
_POSTGRES = ("django.contrib.postgres.", "django.contrib.gis.")
_PLAIN = frozenset({"binary", "nocase", "rtrim"})


@dataclass(frozen=True, kw_only=True)
class Template:
    """An SQLite file with all tables, and no rows."""

    path: Path
    differences: Sequence[Difference]
    """What the live database has, and this one can't."""


def template(folder: Path, models: Iterable[type[Model]] | None = None) -> Template:
    """Make the tables of the project's models, whichever of its databases they are in; its migrations are not run.

    It asks no live database anything, and may be done in a process that has connections to them. Rows that migrations
    or `post_migrate` add, such as content types, are not there.

    Args:
        folder: where the file is made; one that is there is replaced.
        models: those whose tables are made; all of the installed apps where there are none.

    Raises:
        OSError, sqlite3.Error: the file can't be written.
    """
    path = folder / _NAME
    for old in folder.glob(f"{_NAME}*"):
        old.unlink()
    found = Differences()
    found.add(Kind.NOT_ENFORCED, "", detail="foreign keys, triggers, lengths of texts, ranges of integers, collations")
    found.add(
        Kind.NOT_HELD, "", detail="of decimals that are calculated, also by MAX() and SUM(), digits after the 15th"
    )
    with _connected(path) as wrapper:
        made: set[str] = set()
        for model in _ordered(models):
            if model._meta.db_table.lower() not in made:
                made.add(model._meta.db_table.lower())
                _Maker(wrapper, model, found).make()
    return Template(path=path, differences=found.listed())


def entry(path: Path) -> dict[str, Any]:
    """Return the entry of `DATABASES` for a scratch database."""
    return {
        "ENGINE": ENGINE, "NAME": str(path), "USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {},
        "TIME_ZONE": None, "AUTOCOMMIT": True, "ATOMIC_REQUESTS": False, "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": False,
        "TEST": {"CHARSET": None, "COLLATION": None, "MIGRATE": True, "MIRROR": None, "NAME": None},
    }  # fmt: skip


def _ordered(models: Iterable[type[Model]] | None) -> Sequence[type[Model]]:
    found = apps.get_models(include_auto_created=True) if models is None else models
    tables = {one for model in found for one in (model, *_between(model))}
    kept = [model for model in tables if not model._meta.proxy and not model._meta.swapped]
    # Where an unmanaged model is another look at a managed one's table, this is made.
    return sorted(kept, key=lambda model: (not model._meta.managed, model._meta.label_lower))


def _between(model: type[Model]) -> Iterator[type[Model]]:
    for field in model._meta.local_many_to_many:
        through: Any = field.remote_field.through
        if through._meta.auto_created:
            yield through


@contextmanager
def _connected(path: Path) -> Iterator[DatabaseWrapper]:
    # Not known to Django under any alias: its transactions are its own.
    wrapper = DatabaseWrapper(entry(path), "replay_scratch_template")
    wrapper.connect()
    try:
        wrapper.connection.execute("PRAGMA journal_mode = WAL")
        wrapper.connection.execute("BEGIN")
        yield wrapper
        wrapper.connection.execute("COMMIT")
    finally:
        wrapper.close()


class _Maker:
    """Makes one model's table, its indexes, and as much of the rest as SQLite takes."""

    def __init__(self, wrapper: DatabaseWrapper, model: type[Model], found: Differences) -> None:
        self._wrapper = wrapper
        self._model = model
        self._found = found

    def make(self) -> None:
        options = self._model._meta
        checks = [one for one in options.constraints if isinstance(one, CheckConstraint)]
        unique = [one for one in options.constraints if isinstance(one, UniqueConstraint)]
        indexes = [one for one in options.indexes if type(one) is Index]
        self._without(one.name for one in options.constraints if one not in checks + unique)
        self._without(one.name for one in options.indexes if one not in indexes)
        error = self._try(checks + unique, indexes)
        if error is not None:
            self._without(one.name for one in checks)
            error = self._try(unique, indexes)
        if error is not None:
            error = self._try(unique, indexes, defaults=False)
            self._without(["defaults"] if error is None else [])
        if error is not None:
            self._found.add(Kind.NO_TABLE, options.label_lower, detail=f"{type(error).__name__}: {error}")
        self._note_fields()

    def _without(self, names: Iterable[str]) -> None:
        for name in names:
            self._found.add(Kind.NOT_ENFORCED, self._model._meta.label_lower, detail=name)

    def _note_fields(self) -> None:
        label = self._model._meta.label_lower
        for field in self._model._meta.local_concrete_fields:
            if any(kind.__module__.startswith(_POSTGRES) for kind in type(field).__mro__):
                self._found.add(Kind.KEPT_AS_TEXT, label, field.attname)
            collation = getattr(field, "db_collation", None)
            if collation and collation.lower() not in _PLAIN:
                self._found.add(Kind.NOT_ENFORCED, label, field.attname, f"collation {collation}")

    def _try(self, constraints: Sequence[Any], indexes: Sequence[Any], *, defaults: bool = True) -> Exception | None:
        editor = SchemaEditor(self._wrapper, collect_sql=True, atomic=False)
        editor.deferred_sql = []
        editor.defaults = defaults
        try:
            editor.create_model(_stripped(self._model, constraints, indexes))
            for statement in editor.collected_sql:
                self._execute(str(statement))
        except Exception as error:  # whatever a field, a constraint or an expression makes of another database
            return error
        for statement in editor.deferred_sql:
            try:
                self._execute(str(statement))
            except sqlite3.Error as error:
                self._without([f"{statement}: {error}"])
        return None

    def _execute(self, sql: str) -> None:
        self._wrapper.connection.execute(sql)


class _Options:
    """A model's options, some of them replaced."""

    def __init__(self, options: Any, **replaced: Any) -> None:
        self.__dict__.update(replaced)
        self._options = options

    def __getattr__(self, name: str) -> Any:
        return getattr(self._options, name)


def _stripped(model: type[Model], constraints: Sequence[Any], indexes: Sequence[Any]) -> Any:
    """Return what a schema editor takes for the model; the model itself stays as other threads know it."""
    options = _Options(model._meta, constraints=constraints, indexes=indexes, local_many_to_many=())
    return type(model.__name__, (), {"_meta": options})
