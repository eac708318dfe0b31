"""The few calls of the C library that Python has no names for."""

from __future__ import annotations

import ctypes
import functools
import os
from errno import ENOSYS

from .syscalls import number_of

NO_NEW_PRIVILEGES, PARENT_DEATH_SIGNAL = 38, 1
"""Options of prctl."""


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    library.mmap.restype = ctypes.c_void_p
    return library


def load() -> None:
    """Load it, so that those that are forked from here need not."""
    _library()


def syscall(name: str, *arguments: int) -> int:
    """Call the kernel by a system call's name; addresses are numbers here.

    Raises:
        OSError: the kernel refused, or has no such call.
    """
    number = number_of(name)
    if number is None:
        raise OSError(ENOSYS, os.strerror(ENOSYS))
    return _checked(_library().syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)))


def prctl(option: int, value: int) -> None:
    """Change a property of this process."""
    _checked(_library().prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))))


def map_over(address: int, length: int, protection: int, flags: int, file: int = -1, offset: int = 0) -> None:
    """Put another mapping of memory in the place of what is there."""
    place = ctypes.c_void_p(address), ctypes.c_size_t(length)
    mapped = _library().mmap(*place, protection, flags, file, ctypes.c_long(offset))
    if mapped != address:
        _checked(-1)


def fill(address: int, content: bytes) -> None:
    """Write into memory."""
    ctypes.memmove(address, content, len(content))


def protect(address: int, length: int, protection: int) -> None:
    """Say how a mapping may be used."""
    _checked(_library().mprotect(ctypes.c_void_p(address), ctypes.c_size_t(length), protection))


def _checked(answer: int) -> int:
    if answer == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
