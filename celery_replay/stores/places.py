"""Places for large values outside of a store: a folder, object storage. The store keeps what refers to them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from ..exceptions import ConfigurationError, StoreError

_STUB = b">"
"""The first byte of what a store has in place of a value that is elsewhere; values begin with `j` or `z`."""


class BlobPlace(Protocol):
    """Keeps bytes under names. Names are hexadecimal digits, `/` and `-`; none is ever given to two values.

    What it raises is of its library: whoever calls takes it for a place that can't be reached now.
    """

    @property
    def place(self) -> str:
        """Say for people where it is, without credentials."""

    def put(self, bodies: Mapping[str, bytes]) -> None:
        """Keep values, for good once it returns."""

    def get(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return values; those that are gone are not among them."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete values; no matter whether they are there."""


def stub(name: str) -> bytes:
    """Return what a store keeps of a value that is elsewhere."""
    return _STUB + name.encode()


def name_in(body: bytes) -> str:
    """Return under which name a value is elsewhere; empty where this is the value."""
    return body[1:].decode() if body[:1] == _STUB else ""


def fetched(place: BlobPlace | None, stubs: Mapping[str, str]) -> dict[str, bytes]:
    """Get values from elsewhere.

    Args:
        stubs: their names there by their references.

    Raises:
        StoreError: the place can't be reached, or none is set.
    """
    if place is None:
        raise StoreError("large values are kept elsewhere, and nothing says where: set replay_blobs as the workers do")
    try:
        found = place.get(sorted(stubs.values()))
    except Exception as error:
        raise StoreError(f"large values can't be read from {place.place}: {type(error).__name__}: {error}") from error
    return {reference: found[name] for reference, name in stubs.items() if name in found}


class Folder:
    """A folder, perhaps one that several machines share."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    @property
    def place(self) -> str:
        """Say which folder it is."""
        return f"folder {self._path}"

    def put(self, bodies: Mapping[str, bytes]) -> None:
        """Write files, each whole or not at all."""
        for name, body in bodies.items():
            target = self._path / name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=target.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(body)
                    file.flush()
                    os.fsync(file.fileno())
                Path(temporary).replace(target)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
            _sync(target.parent)

    def get(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """Read files."""
        found = {}
        for name in names:
            with suppress(FileNotFoundError):
                found[name] = (self._path / name).read_bytes()
        return found

    def delete(self, names: Sequence[str]) -> None:
        """Delete files."""
        for name in names:
            (self._path / name).unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Have a folder's entries on disk, too: the store drops its own copy next."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_place(url: str, options: Mapping[str, Any]) -> BlobPlace:
    """Open the place that a setting names; nothing is connected to yet.

    Args:
        url: an absolute path, `storages://alias`, a URL of fsspec's, or `package.module:Class`.
        options: of the place.

    Raises:
        ConfigurationError: it leads nowhere.
    """
    scheme, mark, rest = url.partition("://")
    if not mark and Path(url).is_absolute():
        return Folder(url)
    if mark and scheme == "file":
        if not Path(rest).is_absolute():
            raise ConfigurationError(f"setting replay_blobs = {url!r}: a folder's path must be absolute: file:///path")
        return Folder(rest)
    if mark and scheme == "storages":
        return _load("django_celery_replay.blob_storage:StorageBlobs", url)(rest, **options)
    if mark:
        return _load("celery_replay.contrib.fsspec:FsspecBlobs", url)(url, **options)
    return _load(url, url)(**options)


def _load(name: str, url: str) -> Callable[..., BlobPlace]:
    from kombu.utils.imports import symbol_by_name

    try:
        found: Callable[..., BlobPlace] = symbol_by_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"setting replay_blobs = {url!r} can't be loaded ({error}); use the absolute path of a folder, "
            "storages://alias in a Django project, s3://bucket/folder (with celery-replay[fsspec] installed) or "
            "package.module:Class"
        ) from error
    return found
