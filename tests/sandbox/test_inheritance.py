"""What the child has from its parent is its own, or gone."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import socket
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.sandbox.conftest import Runs
from tests.sandbox.outside import Outside


def test_stores_into_shared_memory_stay_in_the_child(outside: Outside, runs: Runs) -> None:
    def body() -> list[str]:
        outside.mapped[:1] = outside.shared[:1] = b"x"
        outside.mapped.flush()
        return [outside.mapped[:9].decode(), outside.shared[:1].decode()]

    assert runs(body).value == ["xs it was", "x"]
    outside.check()
    assert outside.mapped[:9] == b"as it was"


def test_memory_whose_file_is_gone_keeps_its_content(tmp_path: Path, runs: Runs) -> None:
    path = tmp_path / "gone"
    path.write_bytes(b"kept".ljust(2 * mmap.PAGESIZE))
    with path.open("rb+") as file, closing(mmap.mmap(file.fileno(), 0)) as memory:
        path.unlink()

        def body() -> str:
            read = memory[:4].decode()
            memory[:4] = b"lost"
            return read

        assert runs(body).value == "kept"
        assert memory[:4] == b"kept"


def test_a_mapping_for_reading_cant_be_made_one_for_writing(tmp_path: Path, runs: Runs) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"kept")
    with path.open("rb+") as file:
        memory = mmap.mmap(file.fileno(), 4, mmap.MAP_SHARED, mmap.PROT_READ)
        address = _address(memory, path)

        def body() -> None:
            from celery_replay.sandbox import libc

            libc.protect(address, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE)
            ctypes.memmove(address, b"lost", 4)

        assert runs(body).ok
        assert memory[:] == b"kept"


def _address(memory: mmap.mmap, path: Path) -> int:
    line = next(line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path)))
    return int(line.partition("-")[0], 16)


def test_position_and_locks_of_a_file_are_no_longer_shared(outside: Outside, runs: Runs) -> None:
    fcntl.flock(outside.readable, fcntl.LOCK_EX)

    def body() -> str:
        text = outside.readable.read(2).decode()
        fcntl.flock(outside.readable, fcntl.LOCK_UN)
        return text

    assert runs(body).value == "as"
    assert outside.readable.tell() == 0
    with outside.file.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_file_open_for_reading_goes_on_from_where_it_was(outside: Outside, runs: Runs) -> None:
    outside.readable.seek(3)
    assert runs(lambda: outside.readable.read(2).decode()).value == "it"
    outside.readable.seek(0)


def test_the_number_of_what_is_gone_is_not_given_to_another_file(outside: Outside, runs: Runs) -> None:
    gone = outside.inherited.fileno()

    def body() -> tuple[bool, bytes]:
        with Path(__file__).open() as file:
            return file.fileno() != gone, os.read(gone, 1).decode()

    assert runs(body).value == [True, ""]


def test_what_prepare_names_stays_open_and_what_it_does_not_is_closed(runs: Runs) -> None:
    kept, ours = socket.socketpair()
    dropped, other = socket.socketpair()
    with kept, ours, dropped, other:

        def body() -> str:
            kept.sendall(b"x")
            try:
                dropped.sendall(b"x")
            except OSError as error:
                return type(error).__name__
            return "sent"

        assert runs(body, prepare=lambda: {kept.fileno()}).value == "OSError"
        assert ours.recv(9) == b"x"
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.recv(9)


def test_prepare_may_reach_what_the_body_may_not(outside: Outside, runs: Runs) -> None:
    opened: list[socket.socket] = []

    def prepare() -> list[int]:
        opened.append(socket.create_connection(outside.tcp.getsockname()))
        return [opened[0].fileno()]

    assert runs(lambda: opened[0].send(b"x"), prepare=prepare).value == 1
    served, _ = outside.tcp.accept()
    with served:
        assert served.recv(9) == b"x"


def test_the_parent_keeps_all_of_its_own(outside: Outside, runs: Runs) -> None:
    before = psutil.Process().num_fds()
    runs(lambda: 1)
    assert psutil.Process().num_fds() == before
    outside.inherited.send(b"x")
    assert outside.peer.recv(9) == b"x"
