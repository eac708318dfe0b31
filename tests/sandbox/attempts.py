"""Ways out of the sandbox. Each raises if it was refused; `by_interpreter` are those that the interpreter hears of."""

from __future__ import annotations

import asyncio
import ctypes
import http.client
import mmap
import os
import shutil
import signal
import smtplib
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.util import spawnv_passfds
from pathlib import Path
from typing import Any

import psycopg

from celery_replay.sandbox import libc
from tests.sandbox.outside import CONTENT, Outside

Attempt = Callable[[Outside], Any]
LIBRARY = ctypes.CDLL(None, use_errno=True)
BY_INTERPRETER: dict[str, tuple[Attempt, str]] = {}
BELOW: dict[str, Attempt] = {}


def by_interpreter(event: str) -> Callable[[Attempt], Attempt]:
    """Register an attempt, and the event that it is recorded as."""

    def register(attempt: Attempt) -> Attempt:
        BY_INTERPRETER[attempt.__name__] = (attempt, event)
        return attempt

    return register


def below(attempt: Attempt) -> Attempt:
    """Register an attempt that only the kernel hears of."""
    BELOW[attempt.__name__] = attempt
    return attempt


def checked(answer: int) -> int:
    if answer == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer


@by_interpreter("socket.getaddrinfo")
def tcp_connection(outside: Outside) -> Any:
    return socket.create_connection(outside.tcp_address, timeout=5)


@by_interpreter("socket")
def socket_of_the_internet(outside: Outside) -> Any:
    socket.socket().connect(outside.tcp_address)


@by_interpreter("socket")
def datagram(outside: Outside) -> Any:
    socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", outside.udp_address)


@by_interpreter("socket.connect")
def path_of_a_socket(outside: Outside) -> Any:
    socket.socket(socket.AF_UNIX).connect(outside.unix_path)


@by_interpreter("socket.connect")
def abstract_socket(outside: Outside) -> Any:
    socket.socket(socket.AF_UNIX).connect(outside.abstract_name)


@by_interpreter("socket.bind")
def bound_socket(outside: Outside) -> Any:
    socket.socket(socket.AF_UNIX).bind(str(outside.sockets / "new"))


@by_interpreter("socket")
def datagram_to_a_path(outside: Outside) -> Any:
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", outside.log_path)


@by_interpreter("http.client.connect")
def http_request(outside: Outside) -> Any:
    http.client.HTTPConnection(*outside.tcp_address, timeout=5).request("GET", "/?token=secret")


@by_interpreter("smtplib.connect")
def mail(outside: Outside) -> Any:
    smtplib.SMTP(*outside.tcp_address, timeout=5)


@by_interpreter("socket")
def asyncio_connection(outside: Outside) -> Any:
    async def connect() -> None:
        await asyncio.open_connection(*outside.tcp_address)

    asyncio.run(connect())


@by_interpreter("subprocess.Popen")
def program(outside: Outside) -> Any:
    subprocess.run(["touch", str(outside.folder / "new")], check=True)


@by_interpreter("os.system")
def shell(outside: Outside) -> Any:
    if os.system(f"PASSWORD=secret touch {outside.folder / 'new'}"):
        raise PermissionError


@by_interpreter("os.posix_spawn")
def spawned_program(outside: Outside) -> Any:
    os.waitpid(os.posix_spawn(shutil.which("touch") or "", ["touch", str(outside.folder / "new")], {}), 0)


@by_interpreter("os.exec")
def replaced_program(outside: Outside) -> Any:
    os.execv(shutil.which("touch") or "", ["touch", str(outside.folder / "new")])


@by_interpreter("open")
def written_file(outside: Outside) -> Any:
    outside.file.write_text("x")


@by_interpreter("open")
def appended_file(outside: Outside) -> Any:
    with outside.file.open("a") as file:
        file.write("x")


@by_interpreter("open")
def new_file(outside: Outside) -> Any:
    os.close(os.open(outside.folder / "new", os.O_CREAT | os.O_WRONLY))


@by_interpreter("open")
def copied_file(outside: Outside) -> Any:
    shutil.copyfile(outside.file, outside.folder / "new")


@by_interpreter("open")
def file_behind_a_link(outside: Outside) -> Any:
    Path("way-out").symlink_to(outside.file)
    Path("way-out").write_text("x")


@by_interpreter("os.remove")
def removed_file(outside: Outside) -> Any:
    outside.file.unlink()


@by_interpreter("os.rmdir")
def removed_folder(outside: Outside) -> Any:
    (outside.folder / "empty").rmdir()


@by_interpreter("os.remove")
def removed_tree(outside: Outside) -> Any:
    shutil.rmtree(outside.folder / "filled")


@by_interpreter("os.rename")
def renamed_file(outside: Outside) -> Any:
    outside.file.rename(outside.folder / "new")


@by_interpreter("os.rename")
def file_moved_in(outside: Outside) -> Any:
    outside.file.rename("moved")


@by_interpreter("os.rename")
def file_moved_out(outside: Outside) -> Any:
    Path("mine").write_text("x")
    Path("mine").replace(outside.file)


@by_interpreter("os.link")
def file_linked_in(outside: Outside) -> Any:
    os.link(outside.file, "linked")
    Path("linked").write_text("x")


@by_interpreter("os.symlink")
def new_link(outside: Outside) -> Any:
    (outside.folder / "new").symlink_to("file")


@by_interpreter("os.mkdir")
def new_folder(outside: Outside) -> Any:
    (outside.folder / "new").mkdir()


@by_interpreter("os.truncate")
def truncated_file(outside: Outside) -> Any:
    os.truncate(outside.file, 0)


@by_interpreter("os.setxattr")
def attribute(outside: Outside) -> Any:
    os.setxattr(outside.file, "user.test", b"x")


@by_interpreter("sqlite3.connect")
def database(outside: Outside) -> Any:
    with sqlite3.connect(outside.folder / "new") as connection:
        connection.execute("CREATE TABLE t (a)")


@by_interpreter("os.kill")
def signal_to_the_parent(outside: Outside) -> Any:
    os.kill(outside.pid, signal.SIGUSR1)


@by_interpreter("os.killpg")
def signal_to_the_parents_group(outside: Outside) -> Any:
    # No signal, but the question whether one may be sent: others are in that group, too.
    os.killpg(os.getpgid(outside.pid), 0)


@by_interpreter("open")
def own_memory(_: Outside) -> Any:
    with Path("/proc/self/mem").open("r+b") as memory:
        memory.read(0)


@by_interpreter("open")
def memory_of_the_parent(outside: Outside) -> Any:
    with Path(f"/proc/{outside.pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(ctypes.addressof(outside.memory))
        memory.write(b"x")


@by_interpreter("open")
def in_a_thread(outside: Outside) -> Any:
    caught: list[BaseException] = []

    def write() -> None:
        try:
            outside.file.write_text("x")
        except PermissionError as error:
            caught.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    for error in caught:
        raise error


@by_interpreter("open")
def in_a_grandchild(outside: Outside) -> Any:
    pid = os.fork()
    if not pid:
        try:
            outside.file.write_text("x")
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise PermissionError


@below
def connection_of_c(outside: Outside) -> Any:
    opened = checked(LIBRARY.socket(socket.AF_INET, socket.SOCK_STREAM, 0))
    address = ctypes.create_string_buffer(
        socket.AF_INET.to_bytes(2, sys.byteorder)
        + outside.tcp_address[1].to_bytes(2, "big")
        + bytes([127, 0, 0, 1])
        + bytes(8)
    )
    checked(LIBRARY.connect(opened, address, 16))


@below
def socket_path_of_c(outside: Outside) -> Any:
    opened = checked(LIBRARY.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0))
    path = outside.unix_path.encode()
    address = ctypes.create_string_buffer(socket.AF_UNIX.to_bytes(2, sys.byteorder) + path)
    checked(LIBRARY.connect(opened, address, 2 + len(path) + 1))


@below
def datagram_through_a_pair(outside: Outside) -> Any:
    ends = (ctypes.c_int * 2)()
    checked(LIBRARY.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM, 0, ends))
    path = outside.log_path.encode()
    address = ctypes.create_string_buffer(socket.AF_UNIX.to_bytes(2, sys.byteorder) + path)
    checked(LIBRARY.sendto(ends[0], b"x", 1, 0, address, 2 + len(path) + 1))


@below
def message_through_a_pair_of_streams(outside: Outside) -> Any:
    socket.socketpair()[0].sendmsg([b"x"], [], 0, outside.log_path)


@below
def database_client_in_c(outside: Outside) -> Any:
    host, port = outside.tcp_address
    psycopg.connect(f"host={host} port={port} user=x dbname=x connect_timeout=5")


@below
def database_client_in_c_by_path(outside: Outside) -> Any:
    psycopg.connect(f"host={outside.sockets} port=5432 user=x dbname=x connect_timeout=5")


@below
def attached_database(outside: Outside) -> Any:
    connection = sqlite3.connect(":memory:")
    connection.execute("ATTACH ? AS other", (str(outside.folder / "new"),))
    connection.execute("CREATE TABLE other.t (a)")


@below
def shell_of_c(outside: Outside) -> Any:
    if LIBRARY.system(f"touch {outside.folder / 'new'}".encode()):
        raise PermissionError


@below
def program_of_c(outside: Outside) -> Any:
    touch = (shutil.which("touch") or "").encode()
    arguments = (ctypes.c_char_p * 3)(b"touch", bytes(outside.folder / "new"), None)
    checked(LIBRARY.execv(touch, arguments))


@below
def program_that_the_interpreter_keeps_quiet_of(outside: Outside) -> Any:
    touch = shutil.which("touch") or ""
    pid = spawnv_passfds(touch.encode(), [touch, str(outside.folder / "new")], [])
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise PermissionError


@below
def file_of_c(outside: Outside) -> Any:
    opened = checked(LIBRARY.open(bytes(outside.file), os.O_WRONLY | os.O_APPEND))
    os.write(opened, b"x")


@below
def file_read_and_truncated(outside: Outside) -> Any:
    checked(LIBRARY.open(bytes(outside.file), os.O_RDONLY | os.O_TRUNC))


@below
def file_opened_for_neither(outside: Outside) -> Any:
    checked(LIBRARY.open(bytes(outside.file), 3 | os.O_TRUNC))


@below
def removal_by_c(outside: Outside) -> Any:
    checked(LIBRARY.unlink(bytes(outside.file)))


@below
def renaming_by_c(outside: Outside) -> Any:
    checked(LIBRARY.rename(bytes(outside.file), bytes(outside.folder / "new")))


@below
def truncation_by_c(outside: Outside) -> Any:
    checked(LIBRARY.truncate(bytes(outside.file), 0))


@below
def link_by_c(outside: Outside) -> Any:
    checked(LIBRARY.link(bytes(outside.file), b"linked"))
    checked(LIBRARY.open(b"linked", os.O_WRONLY | os.O_TRUNC))


@below
def fifo(outside: Outside) -> Any:
    os.mkfifo(outside.folder / "new")


@below
def device_in_the_folder(_: Outside) -> Any:
    os.mknod("device", 0o600 | 0o020000, os.makedev(1, 3))


@below
def file_by_the_parents_number(outside: Outside) -> Any:
    path = f"/proc/{outside.pid}/fd/{outside.writable.fileno()}"
    os.write(checked(LIBRARY.open(path.encode(), os.O_WRONLY)), b"x")


@below
def inherited_file(outside: Outside) -> Any:
    outside.writable.write(b"x")


@below
def inherited_socket(outside: Outside) -> Any:
    outside.inherited.send(b"x")


@below
def inherited_file_reopened(outside: Outside) -> Any:
    path = f"/proc/self/fd/{outside.readable.fileno()}"
    os.write(checked(LIBRARY.open(path.encode(), os.O_WRONLY)), b"x")


@below
def shared_mapping_of_a_file_open_for_reading(outside: Outside) -> Any:
    with outside.file.open("rb") as file:
        mmap.mmap(file.fileno(), len(CONTENT), mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)[:1] = b"x"


@below
def signal_by_c(outside: Outside) -> Any:
    checked(LIBRARY.kill(outside.pid, signal.SIGUSR1))


@below
def signal_by_a_descriptor(outside: Outside) -> Any:
    signal.pidfd_send_signal(os.pidfd_open(outside.pid), signal.SIGUSR1)


@below
def tracing(outside: Outside) -> Any:
    seize = 0x4206
    libc.syscall("ptrace", seize, outside.pid, 0, 0)


@below
def ring(_: Outside) -> Any:
    parameters = ctypes.create_string_buffer(120)
    libc.syscall("io_uring_setup", 4, ctypes.addressof(parameters))


@below
def session_of_its_own(_: Outside) -> Any:
    pid = os.fork()
    if not pid:
        try:
            os.setsid()
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise PermissionError


@below
def sibling(_: Outside) -> Any:
    sibling_and_signal = 0x8000 | signal.SIGCHLD
    if not libc.syscall("clone", sibling_and_signal, 0, 0, 0, 0):
        os._exit(0)


@below
def namespace(_: Outside) -> Any:
    new_user = 0x10000000 | signal.SIGCHLD
    if not libc.syscall("clone", new_user, 0, 0, 0, 0):
        os._exit(0)
