"""What a body does all day goes on in the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import decimal
import importlib
import json
import logging
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from celery_replay.sandbox import Layers
from tests.sandbox.conftest import Runs

WORK: list[Callable[[], Any]] = []
SINCE = {"move_between_folders": 2, "truncation_by_path": 3}
"""Landlock's ABI from which on it can allow what it, or the filter in its stead, refused everywhere before."""


def work(body: Callable[[], Any]) -> Callable[[], Any]:
    WORK.append(body)
    return body


@work
def threads() -> Any:
    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(int, "1234")) == 10


@work
def thread_that_waits_for_another() -> Any:
    event = threading.Event()
    threading.Thread(target=event.set).start()
    return event.wait()


@work
def event_loop() -> Any:
    async def both() -> list[int]:
        return [await asyncio.to_thread(int, "1"), await asyncio.sleep(0, 2)]

    return asyncio.run(both()) == [1, 2]


@work
def pair_of_sockets() -> Any:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"x")
        return other.recv(1) == b"x"


@work
def temporary_files() -> Any:
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as file:
        nested = Path(folder, "a", "b")
        nested.mkdir(parents=True)
        (nested / "c").write_text("x")
        shutil.copy2(nested / "c", nested / "d")
        (nested / "d").replace(nested / "e")
        return file.write(b"x") == 1 and (nested / "e").read_text() == "x"


@work
def move_between_folders() -> Any:
    Path(os.environ["TMPDIR"], "other").mkdir()
    source = Path(os.environ["TMPDIR"], "moved")
    source.write_text("x")
    source.replace(source.parent / "other" / "moved")
    return (source.parent / "other" / "moved").read_text() == "x"


@work
def truncation_by_path() -> Any:
    path = Path(os.environ["TMPDIR"], "truncated")
    path.write_text("x")
    os.truncate(path, 0)
    return path.read_text() == ""


@work
def removed_tree() -> Any:
    Path(os.environ["TMPDIR"], "tree", "leaf").mkdir(parents=True)
    shutil.rmtree(Path(os.environ["TMPDIR"], "tree"))
    return True


@work
def relative_paths() -> Any:
    os.chdir(os.environ["TMPDIR"])
    Path("relative").write_text("x")
    Path("relative").chmod(0o600)
    return Path("relative").read_text() == "x"


@work
def database_in_memory() -> Any:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


@work
def database_in_the_folder() -> Any:
    path = Path(os.environ["TMPDIR"], "database")
    with contextlib.closing(sqlite3.connect(f"file:{path}?cache=private", uri=True)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (a)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
        return connection.execute("SELECT a FROM t").fetchone() == (1,)


@work
def plain_python() -> Any:
    return json.loads(json.dumps({"a": [1.5]})) == {"a": [1.5]} and decimal.Decimal("0.1") * 3 == decimal.Decimal("0.3")


@work
def imports_that_come_late() -> Any:
    sys.modules.pop("colorsys", None)
    return importlib.import_module("colorsys").rgb_to_hls(0, 0, 0) == (0, 0, 0) and bool(subprocess.PIPE)


@work
def clock_and_chance() -> Any:
    time.sleep(0.001)
    return bool(uuid.uuid4() and time.time() and os.urandom(1))


@work
def grandchild() -> Any:
    pid = os.fork()
    if not pid:
        os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


@work
def pipe() -> Any:
    reading, writing = os.pipe()
    os.write(writing, b"x")
    return os.read(reading, 1) == b"x"


@work
def nowhere() -> Any:
    with Path(os.devnull).open("w") as file:
        return file.write("x") == 1


@work
def files_outside_are_read() -> Any:
    return bool(Path(__file__).read_text() and list(Path("/").iterdir()) and sys.stdin.read() == "")


@work
def logs() -> Any:
    logging.getLogger("sandbox").error("said")
    return os.isatty(1) is False and shutil.get_terminal_size().columns > 0


@pytest.mark.parametrize("body", WORK, ids=lambda body: body.__name__)
def test_it_goes_on_with_what_this_machine_has(body: Callable[[], Any], runs: Runs, layers: Layers) -> None:
    if 0 < layers.landlock < SINCE.get(body.__name__, 0):
        pytest.skip(f"Landlock can't allow that at ABI {layers.landlock}")
    report = runs(body)
    assert report.value is True, report
    assert report.blocked == ()


@pytest.mark.parametrize("body", WORK, ids=lambda body: body.__name__)
def test_it_goes_on_with_the_interpreters_layer_alone(body: Callable[[], Any], runs: Runs, old_kernel: None) -> None:
    report = runs(body)
    assert report.value is True, report
    assert report.blocked == ()
