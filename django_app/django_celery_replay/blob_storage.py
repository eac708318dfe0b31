"""Large values in a storage of Django's `STORAGES`: whatever django-storages reaches, or the project's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import django
from django.apps import apps
from django.core.files.base import ContentFile
from django.core.files.storage import storages

from celery_replay.exceptions import ConfigurationError, StoreError


class StorageBlobs:
    """One storage.

    Args:
        alias: its name in `STORAGES`.
    """

    def __init__(self, alias: str) -> None:
        if not apps.ready:
            # A steward needs Django for nothing else.
            django.setup()
        if alias not in storages.backends:
            raise ConfigurationError(
                f"setting replay_blobs = 'storages://{alias}': there is no {alias!r} in STORAGES, which has "
                f"{', '.join(sorted(storages.backends))}"
            )
        self._alias = alias

    @property
    def _storage(self) -> Any:
        """The storage: made by whoever uses it first, as its library may be a large one."""
        return storages[self._alias]

    @property
    def place(self) -> str:
        """Say which storage it is."""
        return f"storage {self._alias!r}"

    def put(self, bodies: Mapping[str, bytes]) -> None:
        """Save files.

        Raises:
            StoreError: the storage saved one under another name, so that nobody would find it.
        """
        for name, body in bodies.items():
            saved = self._storage.save(name, ContentFile(body))
            if saved != name:
                self._storage.delete(saved)
                raise StoreError(f"storage {self._alias!r} renames files; give replay_blobs one that keeps their names")

    def get(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """Read files."""
        found = {}
        for name in names:
            with suppress(FileNotFoundError), self._storage.open(name) as file:
                found[name] = file.read()
        return found

    def delete(self, names: Sequence[str]) -> None:
        """Delete files."""
        for name in names:
            with suppress(FileNotFoundError):
                self._storage.delete(name)
