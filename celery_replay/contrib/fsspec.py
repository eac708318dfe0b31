"""Large values in whatever fsspec reaches: S3, Google's and Azure's object storage, SFTP and more."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from ..exceptions import ConfigurationError


class FsspecBlobs:
    """One folder of a file system.

    Args:
        url: such as `s3://bucket/folder`; its protocol may need a package of its own, such as s3fs.
        options: of the file system.
    """

    def __init__(self, url: str, **options: Any) -> None:
        if find_spec("fsspec") is None:
            raise ConfigurationError(f"setting replay_blobs = {url!r} needs celery-replay[fsspec]")
        self._url = url
        self._options = options
        self._opened: tuple[int, Any, str] | None = None

    @property
    def _here(self) -> tuple[Any, str]:
        """The file system and the folder in it. Opened by whoever uses it: it may have a thread, and a pool forks."""
        if self._opened is None or self._opened[0] != os.getpid():
            import fsspec

            # What others do meanwhile has to be seen.
            fresh = {"use_listings_cache": False, "skip_instance_cache": True}
            self._opened = os.getpid(), *fsspec.core.url_to_fs(self._url, **{**fresh, **self._options})
        return self._opened[1:]

    @property
    def place(self) -> str:
        """Say which protocol and folder it is."""
        scheme, _, rest = self._url.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2]}"

    def put(self, bodies: Mapping[str, bytes]) -> None:
        """Write files."""
        system, _ = self._here
        for folder in {name.rpartition("/")[0] for name in bodies}:
            system.makedirs(self._path(folder), exist_ok=True)
        system.pipe({self._path(name): body for name, body in bodies.items()})

    def get(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """Read files, many at once where the file system can."""
        paths = {self._path(name): name for name in names}
        found = self._here[0].cat(list(paths), on_error="return") if paths else {}
        bodies: dict[str, bytes] = {}
        for path, answer in found.items():
            if isinstance(answer, FileNotFoundError):
                continue
            if isinstance(answer, Exception):
                raise answer
            bodies[paths[path]] = answer
        return bodies

    def delete(self, names: Sequence[str]) -> None:
        """Delete files."""
        for name in names:
            with suppress(FileNotFoundError):
                self._here[0].rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._here[1].rstrip('/')}/{name}"
