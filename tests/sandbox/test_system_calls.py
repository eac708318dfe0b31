"""The filter's own answers, call by call."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
from collections.abc import Callable
from errno import ENOSYS, EPERM
from pathlib import Path

import pytest

from celery_replay.sandbox import libc, seccomp, syscalls
from tests.sandbox.conftest import Runs

GROUPS = {
    **dict.fromkeys(syscalls.REFUSED, EPERM),
    syscalls.ABSENT: ENOSYS,
    syscalls.FEIGNED: 0,
}
NAMES = {entry.split(":")[0]: group for group in GROUPS for entry in group.split()}
FILE_OWNER, FILE_LEASE, INJECT, FLAGS_OF_A_FILE = 8, 1024, 0x5412, 0x40086602

pytestmark = pytest.mark.usefixtures("kernel_alone")


def error_of(call: Callable[[], object]) -> int:
    try:
        call()
    except OSError as error:
        return error.errno or -1
    return 0


def test_every_call_of_a_group_gets_the_answer_of_its_group(runs: Runs) -> None:
    here = {name: group for name, group in NAMES.items() if syscalls.number_of(name) is not None}

    def body() -> dict[str, int]:
        # Arguments that no kernel would take, if one were asked.
        return {name: error_of(lambda name=name: libc.syscall(name, *[-1] * 6)) for name in here}

    assert runs(body).value == {name: GROUPS[group] for name, group in here.items()}


def test_a_call_that_is_newer_than_the_lists_is_none(runs: Runs) -> None:
    assert runs(lambda: raw(syscalls.NEWEST + 1)).value == ENOSYS


@pytest.mark.skipif(syscalls.architecture() != "x86_64", reason="x32 is a mode of x86-64")
def test_the_other_numbers_for_the_same_calls_are_refused(runs: Runs) -> None:
    x32 = 0x40000000
    assert runs(lambda: [raw(x32 | 39), raw(x32 | 41, socket.AF_INET, 1, 0)]).value == [EPERM, EPERM]


@pytest.mark.skipif(syscalls.architecture() != "x86_64", reason="the old entry is one of x86-64")
def test_the_entry_for_32_bit_programs_is_refused(runs: Runs) -> None:
    # mov eax, 20 (getpid); int 0x80; ret
    code = bytes.fromhex("b814000000cd80c3")

    def body() -> int:
        import mmap

        page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | 4)
        page.write(code)
        function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        return function()

    report = runs(body)
    # A kernel without that entry ends the process.
    assert report.value in {-EPERM, None}
    assert report.value == -EPERM or report.died == "killed by SIGSEGV"


def raw(number: int, *arguments: int) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if library.syscall(ctypes.c_long(number), *arguments) == -1 else 0


def test_signals_and_limits_are_for_oneself_only(runs: Runs) -> None:
    parent = os.getpid()

    def body() -> list[list[int]]:
        received: list[int] = []
        signal.signal(signal.SIGUSR1, lambda number, _: received.append(number))
        calls: list[Callable[[], object]] = [
            lambda: os.kill(os.getpid(), signal.SIGUSR1),
            lambda: signal.raise_signal(signal.SIGUSR1),
            lambda: resource.prlimit(0, resource.RLIMIT_NOFILE),
            lambda: os.kill(parent, 0),
            lambda: os.kill(-1, 0),
            lambda: libc.syscall("tgkill", parent, parent, 0),
            lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE),
        ]
        return [[error_of(call) for call in calls], received]

    assert runs(body).value == [[0, 0, 0, EPERM, EPERM, EPERM, EPERM], [signal.SIGUSR1, signal.SIGUSR1]]


def test_files_that_may_be_read_give_no_way_to_signals_leases_and_flags(runs: Runs, tmp_path: Path) -> None:
    import fcntl

    (tmp_path / "outside").touch()

    def body() -> list[int]:
        with (tmp_path / "outside").open() as file:
            return [
                error_of(lambda: fcntl.fcntl(file, FILE_OWNER, 1)),
                error_of(lambda: fcntl.fcntl(file, FILE_LEASE, 1)),
                error_of(lambda: fcntl.ioctl(file, FLAGS_OF_A_FILE, bytes(8))),
                error_of(lambda: fcntl.ioctl(file, INJECT, b"x")),
            ]

    assert runs(body).value == [EPERM] * 4


def test_changes_of_mode_owner_and_time_are_answered_as_if_done(runs: Runs, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.touch(0o640)
    before = outside.stat()

    def body() -> None:
        outside.chmod(0o777)
        os.chown(outside, 1, 1)
        os.utime(outside, (1, 1))
        with outside.open() as file:
            os.fchmod(file.fileno(), 0o777)

    assert runs(body).ok
    after = outside.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (before.st_mode, before.st_uid, before.st_mtime_ns)


def test_kernels_of_old_landlocks_truncate_nothing_by_path(
    runs: Runs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = seccomp.install
    monkeypatch.setattr(seccomp, "install", lambda **_: install(truncation=False))
    (folder / "file").write_text("x")
    assert runs(lambda: error_of(lambda: os.truncate(folder / "file", 0))).value == EPERM
