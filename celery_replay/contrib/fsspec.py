"""Large values in whatever fsspec reaches: S3, Google's and Azure's object storage, SFTP and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..exceptions import ConfigurationError


class FsspecBlobs:
    """One folder of a file system.

    Args:
        url: such as `s3://bucket/folder`; its protocol may need a package of its own, such as s3fs.
        options: of the file system.
    """

    def __init__(self, url: str, **options: Any) -> None:
        # What others do meanwhile has to be seen.
        fresh = {"use_listings_cache": False, "skip_instance_cache": True}
        try:
            import fsspec

            self._system, self._root = fsspec.core.url_to_fs(url, **{**fresh, **options})
        except (ImportError, ValueError) as error:
            raise ConfigurationError(f"setting replay_blobs: {error}; see celery-replay[fsspec]") from error
        self._scheme = url.partition("://")[0]

    @property
    def place(self) -> str:
        """Say which protocol and folder it is."""
        return f"{self._scheme}://{self._root.lstrip('/')}"

    def put(self, bodies: Mapping[str, bytes]) -> None:
        """Write files."""
        for folder in {name.rpartition("/")[0] for name in bodies}:
            self._system.makedirs(self._path(folder), exist_ok=True)
        self._system.pipe({self._path(name): body for name, body in bodies.items()})

    def get(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """Read files, many at once where the file system can."""
        paths = {self._path(name): name for name in names}
        found = self._system.cat(list(paths), on_error="return") if paths else {}
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
                self._system.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"
