"""What a forked child has from its parent, and must not reach the outside by: descriptors, shared memory."""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import stat
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import libc

_ON_LINUX = sys.platform == "linux"
_DESCRIPTORS = "/proc/self/fd" if _ON_LINUX else "/dev/fd"
_PRIVATE, _FIXED, _ANONYMOUS = 0x02, 0x10, 0x20
_SHARED = re.compile(r"^\S+ ...s .*$", re.MULTILINE)
"""Among hundreds of lines of others."""
_PORTION = 64 * 2**20
"""How much memory is copied at a time; a multiple of a huge page."""


def let_go_of_files(keep: Collection[int]) -> None:
    """Let go of every descriptor that leads out, but for those to keep.

    Files and folders that are open for reading stay readable, each opened anew: the parent's position in them, and its
    locks on them, are no longer shared. Everything else (sockets, pipes, event queues, devices, files open for
    writing) is closed. A descriptor that can only be read, and is empty, takes its number, so that an object which
    remembers that number never meets a file of somebody else.
    """
    empty = os.open(os.devnull, os.O_RDONLY)
    try:
        for descriptor in [int(entry.name) for entry in Path(_DESCRIPTORS).iterdir()]:
            if descriptor not in keep and descriptor != empty:
                _let_go(descriptor, empty)
    finally:
        os.close(empty)


def _let_go(descriptor: int, empty: int) -> None:
    try:
        harmless = _is_read_only_file(descriptor)
    except OSError:
        # It was open for the listing only.
        return
    if not harmless or (_ON_LINUX and not _open_anew(descriptor)):
        os.dup2(empty, descriptor, inheritable=False)


def _is_read_only_file(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    return access == os.O_RDONLY and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _open_anew(descriptor: int) -> bool:
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_PATH:
        # It has neither position nor locks.
        return True
    try:
        anew = os.open(f"{_DESCRIPTORS}/{descriptor}", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        os.lseek(anew, os.lseek(descriptor, 0, os.SEEK_CUR), os.SEEK_SET)
        os.dup2(anew, descriptor, inheritable=os.get_inheritable(descriptor))
    except OSError:
        return False
    finally:
        os.close(anew)
    return True


@dataclass(frozen=True, kw_only=True)
class _Mapping:
    """A line of `/proc/self/maps`."""

    begin: int
    end: int
    protection: int
    offset: int
    inode: int
    path: str


def unshare_memory() -> None:
    """Make the child's own whatever memory it shares with others.

    A write to a mapped file, or to a segment that two processes share, is a plain store: no layer of the kernel would
    see it. So each such mapping is replaced by a private one with the same content.

    Raises:
        OSError: a mapping can't be replaced.
    """
    if not _ON_LINUX:
        return
    shared = list(_shared())
    if not shared:
        return
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        for mapping in shared:
            if not _mapped_anew(mapping):
                _copy(mapping, memory)
    finally:
        os.close(memory)


def _shared() -> Iterator[_Mapping]:
    for line in _SHARED.findall(Path("/proc/self/maps").read_text(errors="surrogateescape")):
        place, permissions, offset, _, inode, *path = line.split(maxsplit=5)
        begin, end = (int(address, 16) for address in place.split("-"))
        known = {"r": mmap.PROT_READ, "w": mmap.PROT_WRITE, "x": mmap.PROT_EXEC}
        yield _Mapping(
            begin=begin,
            end=end,
            protection=sum(known.get(letter, 0) for letter in permissions[:3]),
            offset=int(offset, 16),
            inode=int(inode),
            path="".join(path),
        )


def _mapped_anew(mapping: _Mapping) -> bool:
    """Map a file's own content privately, which copies only what is written to; False if it can't be found."""
    try:
        found = Path(mapping.path).stat()
        # Opening anything else may do something.
        if not stat.S_ISREG(found.st_mode) or found.st_ino != mapping.inode:
            return False
        file = os.open(mapping.path, os.O_RDONLY)
    except (OSError, ValueError):
        return False
    length = mapping.end - mapping.begin
    try:
        if os.fstat(file)[1:3] != (found.st_ino, found.st_dev):
            return False
        libc.map_over(mapping.begin, length, mapping.protection, _PRIVATE | _FIXED, file, mapping.offset)
    except OSError:
        return False
    finally:
        os.close(file)
    return True


def _copy(mapping: _Mapping, memory: int) -> None:
    for begin in range(mapping.begin, mapping.end, _PORTION):
        length = min(_PORTION, mapping.end - begin)
        try:
            content = os.pread(memory, length, begin)
        except OSError:
            # A device's memory, or a file that has become shorter.
            content = b""
        libc.map_over(begin, length, mmap.PROT_READ | mmap.PROT_WRITE, _PRIVATE | _FIXED | _ANONYMOUS)
        libc.fill(begin, content)
        libc.protect(begin, length, mapping.protection)
