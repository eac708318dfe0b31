"""Landlock: the kernel refuses this process to write anywhere but beneath one folder, by whatever path."""

from __future__ import annotations

import ctypes
import os
import struct
from errno import EBUSY, ENOSYS
from pathlib import Path

from . import libc

NEWEST = 7
"""The latest ABI that is asked for. A newer kernel offers this one, too."""

_EXECUTE = 1 << 0
_WRITE_FILE = 1 << 1
_REMOVE = 1 << 4 | 1 << 5
_MAKE_DEVICE = 1 << 6 | 1 << 11
_MAKE_SOCKET = 1 << 9
_MAKE = 1 << 7 | 1 << 8 | 1 << 10 | 1 << 12
"""Folders, files, FIFOs and symbolic links."""
_REFER = 1 << 13
_TRUNCATE = 1 << 14
_DEVICE_IOCTL = 1 << 15
_TCP = 1 << 0 | 1 << 1
_ABSTRACT_SOCKETS_AND_SIGNALS = 1 << 0 | 1 << 1

_VERSION, _PATH_BENEATH = 1, 1


def abi() -> int:
    """Return which ABI the kernel offers, at most the newest that is known here.

    Raises:
        OSError: the kernel has no Landlock, or it is switched off.
    """
    return min(libc.syscall("landlock_create_ruleset", 0, 0, _VERSION), NEWEST)


def install(folder: Path) -> int:
    """Restrict this process for good, and all that it forks; return the ABI that is in force.

    Raises:
        OSError: it can't be done here.
    """
    version = abi()
    if threads() > 1:
        # It holds for the thread that asks and for those that it starts.
        raise OSError(EBUSY, "other threads run already, which it would not hold for")
    libc.prctl(libc.NO_NEW_PRIVILEGES, 1)
    allowed = (_WRITE_FILE | _REMOVE | _MAKE | _REFER | _TRUNCATE) & _handled(version)
    rules = _ruleset(version)
    try:
        _allow(rules, folder, allowed)
        _allow(rules, Path(os.devnull), allowed & (_WRITE_FILE | _TRUNCATE))
        libc.syscall("landlock_restrict_self", rules, 0)
    finally:
        os.close(rules)
    return version


def explain(error: OSError) -> str:
    """Say in words why Landlock is not on."""
    if error.errno == ENOSYS:
        return "the kernel has none: it is older than 5.13, or was built without"
    if error.errno in {95, 524}:
        return "it is switched off; name it in the kernel's parameter lsm="
    return error.strerror or str(error)


def _handled(version: int) -> int:
    """Return what is refused wherever no rule allows it."""
    handled = _EXECUTE | _WRITE_FILE | _REMOVE | _MAKE_DEVICE | _MAKE_SOCKET | _MAKE
    for since, more in ((2, _REFER), (3, _TRUNCATE), (5, _DEVICE_IOCTL)):
        handled |= more if version >= since else 0
    return handled


def _ruleset(version: int) -> int:
    fields = [_handled(version)]
    if version >= 4:
        fields.append(_TCP)
    if version >= 6:
        fields.append(_ABSTRACT_SOCKETS_AND_SIGNALS)
    attributes = ctypes.create_string_buffer(struct.pack(f"={len(fields)}Q", *fields))
    return libc.syscall("landlock_create_ruleset", ctypes.addressof(attributes), 8 * len(fields), 0)


def _allow(rules: int, path: Path, access: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = ctypes.create_string_buffer(struct.pack("=Qi", access, place))
        libc.syscall("landlock_add_rule", rules, _PATH_BENEATH, ctypes.addressof(rule), 0)
    finally:
        os.close(place)


def threads() -> int:
    """Count the threads of this process, as the kernel knows them."""
    return len(list(Path("/proc/self/task").iterdir()))
