"""A filter in the kernel over the system calls of this process, and of all that it forks.

It refuses what leads to other machines, processes and programs, whichever library asks. It sees the arguments that are
numbers, and no memory: what depends on a path is Landlock's. Reads and writes of files that are open already pass it,
and with them `sendfile` and `splice`; so what was inherited is let go before.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from errno import ENOSYS, EPERM

from . import libc, syscalls

_LOAD, _AND, _IS, _ABOVE, _HAS, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_REFUSE, _ABSENT, _FEIGN = _ERRNO | EPERM, _ERRNO | ENOSYS, _ERRNO
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Where `struct seccomp_data` has them."""
_X32 = 0x40000000
_SET_FILTER, _ALL_THREADS = 1, 1

_LOCAL, _INTERNET = 1, 2
_STREAM, _SEQUENCED = 1, 5
_FAST_OPEN = 0x20000000
_NAMESPACES_OR_SIBLING = 0x7E028000
"""Flags of clone: new namespaces, and a child that its grandparent would have to reap."""
_OWNER_OR_LEASE = (8, 15, 1024)
"""Commands of fcntl: who is sent signals by a file, and who has to wait for one."""
_IOCTLS = (0x5401, 0x802C542A, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x40049409)
"""Is it a terminal and how large, what can be read, blocking, close on exec, clone into a file open for writing."""
_TRUNCATE, _ACCESS = 0o1000, 0o3

_Code = tuple[int, int, int, int]


def install(*, truncation: bool) -> None:
    """Put the filter on, for good, and on all threads.

    Args:
        truncation: False where Landlock does not know `truncate`, which the filter then refuses.

    Raises:
        OSError: the kernel has no such filters, or does not enforce them.
    """
    if syscalls.architecture() is None:
        raise OSError(ENOSYS, "its system calls are known on Linux for x86-64 and aarch64 only")
    libc.prctl(libc.NO_NEW_PRIVILEGES, 1)
    code = b"".join(struct.pack("HBBI", *line) for line in _program(os.getpid(), truncation=truncation))
    lines = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HP", len(code) // 8, ctypes.addressof(lines)))
    if libc.syscall("seccomp", _SET_FILTER, _ALL_THREADS, ctypes.addressof(program)):
        raise OSError(EPERM, "another thread has a filter of its own")
    _prove()


def _prove() -> None:
    # Some kernels in user space take filters and forget them.
    try:
        os.close(libc.syscall("socket", _INTERNET, _STREAM, 0))
    except PermissionError:
        return
    raise OSError(ENOSYS, "the kernel took the filter, but does not enforce it")


def _program(pid: int, *, truncation: bool) -> Iterator[_Code]:
    architecture = syscalls.AUDIT_ARCH[syscalls.architecture() or ""]
    yield from (_load(_ARCHITECTURE), *_unless(_IS, architecture, _REFUSE), _load(_NUMBER))
    if architecture == syscalls.AUDIT_ARCH["x86_64"]:
        yield from _when(_ABOVE, _X32 - 1, _REFUSE)
    yield from _when(_ABOVE, syscalls.NEWEST, _ABSENT)
    groups = [(group, _REFUSE) for group in syscalls.REFUSED]
    groups += [(syscalls.FEIGNED, _FEIGN), (syscalls.ABSENT, _ABSENT)]
    groups += [] if truncation else [(syscalls.TRUNCATE, _REFUSE)]
    for group, verdict in groups:
        for number in syscalls.numbers_of(group):
            yield from _when(_IS, number, verdict)
    for name, judged in _judged(pid):
        known = syscalls.number_of(name)
        if known is not None:
            yield (_IS, 0, len(judged), known)
            yield from judged
    yield (_RETURN, 0, 0, _ALLOW)


def _judged(pid: int) -> Iterator[tuple[str, list[_Code]]]:
    # Connected by `socketpair` or not at all. Datagrams could still be sent anywhere, such as to the system's log.
    local = [_load(_argument(0)), *_unless(_IS, _LOCAL, _REFUSE), _load(_argument(1)), (_AND, 0, 0, 0xF)]
    for name in ("socket", "socketpair"):
        yield name, [*local, *_one_of((_STREAM, _SEQUENCED))]
    address = [line for half in (0, 4) for line in (_load(_argument(4) + half), *_unless(_IS, 0, _REFUSE))]
    yield "sendto", [*address, (_RETURN, 0, 0, _ALLOW)]
    for name, flags in (("sendmsg", 2), ("sendmmsg", 3)):
        yield name, [_load(_argument(flags)), *_none_of(_HAS, (_FAST_OPEN,))]
    for name in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        yield name, [_load(_argument(0)), *_one_of((pid,))]
    for name in ("prlimit64", "sched_setaffinity", "sched_setparam", "sched_setscheduler", "sched_setattr"):
        yield name, [_load(_argument(0)), *_one_of((0, pid))]
    yield "clone", [_load(_argument(0)), *_none_of(_HAS, (_NAMESPACES_OR_SIBLING,))]
    yield "fcntl", [_load(_argument(1)), *_none_of(_IS, _OWNER_OR_LEASE)]
    yield "ioctl", [_load(_argument(1)), *_one_of(_IOCTLS)]
    for name, flags in (("open", 1), ("openat", 2)):
        # Open for reading and truncated on the way, and the access that is neither: old Landlocks let both through.
        truncating = [(_AND, 0, 0, _TRUNCATE | _ACCESS), *_when(_IS, _TRUNCATE, _REFUSE), (_AND, 0, 0, _ACCESS)]
        yield name, [_load(_argument(flags)), *truncating, *_none_of(_IS, (_ACCESS,))]


def _argument(index: int) -> int:
    return _ARGUMENTS + 8 * index


def _load(where: int) -> _Code:
    return (_LOAD, 0, 0, where)


def _when(test: int, value: int, verdict: int) -> list[_Code]:
    return [(test, 0, 1, value), (_RETURN, 0, 0, verdict)]


def _unless(test: int, value: int, verdict: int) -> list[_Code]:
    return [(test, 1, 0, value), (_RETURN, 0, 0, verdict)]


def _one_of(values: Iterable[int]) -> list[_Code]:
    return [*(line for value in values for line in _when(_IS, value, _ALLOW)), (_RETURN, 0, 0, _REFUSE)]


def _none_of(test: int, values: Iterable[int]) -> list[_Code]:
    return [*(line for value in values for line in _when(test, value, _REFUSE)), (_RETURN, 0, 0, _ALLOW)]
