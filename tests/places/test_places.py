"""Any place for large values: what was put is there, whole; what was deleted is not; nothing else is touched."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from celery_replay.exceptions import ConfigurationError, StoreError
from celery_replay.stores.places import BlobPlace, open_place
from tests.support import s3_server

NAME, OTHER = "ab/ab12-01", "cd/cd34-02"
KINDS = ("folder", "file", "storages", "fsspec-file", "fsspec-memory", "s3")
NEEDS = {"fsspec-file": "fsspec", "fsspec-memory": "fsspec", "s3": "s3fs"}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with ExitStack() as stack:
        yield s3_server.address(stack)


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path: Path, settings: Any) -> BlobPlace:
    kind: str = request.param
    needed = NEEDS.get(kind)
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    if kind == "storages":
        settings.STORAGES = {
            "replay": {
                "BACKEND": "django.core.files.storage.FileSystemStorage",
                "OPTIONS": {"location": str(tmp_path / "kept")},
            }
        }
    if kind == "s3":
        return _bucket(request.getfixturevalue("s3"))
    return open_place(
        {
            "folder": str(tmp_path / "kept"),
            "file": f"file://{tmp_path}/kept",
            "storages": "storages://replay",
            "fsspec-file": f"local://{tmp_path}/kept",
            "fsspec-memory": f"memory://{uuid4().hex}",
        }[kind],
        {},
    )


def _bucket(address: str) -> BlobPlace:
    import boto3

    name = f"replay-{uuid4().hex[:8]}"
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys).create_bucket(Bucket=name)
    options = {"key": "key", "secret": "secret", "client_kwargs": {"endpoint_url": address}}
    return open_place(f"s3://{name}/kept", options)


def test_what_was_put_is_there(place: BlobPlace) -> None:
    bodies = {NAME: b"\x00one" * 1_000, OTHER: b""}
    place.put(bodies)
    assert dict(place.get([NAME, OTHER])) == bodies


def test_what_is_not_there_is_left_out(place: BlobPlace) -> None:
    assert dict(place.get([NAME])) == {}
    place.put({NAME: b"one"})
    assert dict(place.get([NAME, OTHER])) == {NAME: b"one"}
    assert dict(place.get([])) == {}


def test_what_was_deleted_is_gone_and_nothing_else(place: BlobPlace) -> None:
    place.put({NAME: b"one", OTHER: b"two"})
    place.delete([NAME])
    place.delete([NAME, "ef/ef56-03"])
    assert dict(place.get([NAME, OTHER])) == {OTHER: b"two"}


def test_many_go_together(place: BlobPlace) -> None:
    bodies = {f"{n:02x}/{n:04x}-04": f"{n}".encode() for n in range(100)}
    place.put(bodies)
    assert dict(place.get(list(bodies))) == bodies


def test_it_says_where_it_is_without_credentials(place: BlobPlace) -> None:
    assert place.place
    assert "secret" not in place.place


def test_a_half_written_file_is_none(tmp_path: Path) -> None:
    place = open_place(str(tmp_path), {})
    with pytest.raises(TypeError):
        place.put({NAME: "text"})  # type: ignore[dict-item]
    assert dict(place.get([NAME])) == {}
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_others_can_not_read_a_folders_files(tmp_path: Path) -> None:
    open_place(str(tmp_path / "kept"), {}).put({NAME: b"one"})
    modes = {path.stat().st_mode & 0o077 for path in (tmp_path / "kept").rglob("*")}
    assert modes == {0}


def test_a_storage_that_renames_is_refused(tmp_path: Path, settings: Any) -> None:
    settings.STORAGES = {
        "replay": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path)},
        }
    }
    place = open_place("storages://replay", {})
    place.put({NAME: b"one"})
    with pytest.raises(StoreError, match="renames files"):
        place.put({NAME: b"two"})
    assert dict(place.get([NAME])) == {NAME: b"one"}


@pytest.mark.parametrize("url", ["relative/folder", "storages://nobody", "no.such.module:Class", "file://relative"])
def test_a_place_that_leads_nowhere_is_told(url: str) -> None:
    with pytest.raises(ConfigurationError, match="replay_blobs"):
        open_place(url, {})
