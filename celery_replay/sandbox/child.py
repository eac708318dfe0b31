"""A body in a sandbox: a forked child that can't reach the outside, and a parent that waits for its answer."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ..exceptions import SandboxUnavailable
from . import inside, kernel
from .answers import Answers
from .report import Output, Report

OUTPUT_LIMIT = 64_000
"""Bytes of each stream that a report has: half from its beginning, half from its end."""
_GLANCE_S = 0.02
"""How often it is looked whether the child has ended, where something else holds its pipe open."""


def run(
    body: Callable[[], Any],
    *,
    prepare: Callable[[], Collection[int] | None] | None = None,
    folder: Path,
    timeout_s: float,
    require_kernel: bool = False,
) -> Report:
    """Do a body in a child of this process that can write beneath a folder, and reach nothing else.

    The child has all that is loaded here. It is killed at the deadline, with whatever it has forked; non-daemon threads
    that outlive the body are not waited for, and nothing of `atexit` runs.

    Args:
        body: returns what JSON can say.
        prepare: is run in the child before it is locked up, and may connect to what the body may use. It returns the
            descriptors that stay open; a socket, a pipe or a file open for writing that it does not name is closed.
            What it has inherited is still the parent's: to end a connection here would end the parent's.
        folder: exists; the output is captured there, in `stdout.txt` and `stderr.txt`.
        timeout_s: seconds for all of it.
        require_kernel: run nothing where the kernel does not enforce the sandbox.

    Raises:
        SandboxUnavailable: with `require_kernel`, where it does not.
    """
    if require_kernel:
        _refuse(kernel.available())
    folder = folder.resolve(strict=True)
    with contextlib.ExitStack() as closing:
        stdout, stderr = (_captured(folder / name, closing) for name in ("stdout.txt", "stderr.txt"))
        reading, writing = os.pipe()
        closing.callback(os.close, reading)
        with contextlib.closing(os.fdopen(writing, "wb", buffering=0)):
            errand = inside.Errand(
                body=body,
                prepare=prepare,
                folder=folder,
                require_kernel=require_kernel,
                parent=os.getpid(),
                answers=writing,
                stdout=stdout,
                stderr=stderr,
            )
            child = _Child(errand)
        answers = Answers()
        try:
            died = _wait(child, reading, answers, timeout_s)
        finally:
            child.end()
        if require_kernel and answers.layers:
            _refuse(answers.layers)
        return Report(
            layers=answers.layers,
            blocked=tuple(answers.blocked),
            value=answers.value,
            error=answers.error,
            died=died,
            stdout=_output(stdout),
            stderr=_output(stderr),
            unreadable=answers.unreadable,
        )


class _Child:
    """A forked process, and all of its group."""

    def __init__(self, errand: inside.Errand) -> None:
        for stream in (sys.stdout, sys.stderr):
            # Else the child would print what waits in the parent's buffer.
            with contextlib.suppress(Exception):
                stream.flush()
        self._status: int | None = None
        self._reaped = False
        self.pid = os.fork()
        if not self.pid:
            inside.live(errand)

    def has_ended(self) -> bool:
        """Has it? Until it is reaped, nobody else is given its number."""
        try:
            if hasattr(os, "waitid"):
                return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            self._reap(os.WNOHANG)
        except ChildProcessError:
            self._reaped = True
        return self._reaped

    def end(self) -> None:
        """Kill it and what it has forked, and reap it."""
        for kill in (os.killpg, os.kill):
            if kill is os.killpg or not self._reaped:
                # macOS says of a group that has only ended members that it may not be sent signals.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(self.pid, signal.SIGKILL)
        if not self._reaped:
            with contextlib.suppress(ChildProcessError):
                self._reap(0)

    def how(self) -> str:
        """Reap it, and say how it ended."""
        self.end()
        if self._status is None:
            return "somebody else has reaped it"
        code = os.waitstatus_to_exitcode(self._status)
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"

    def _reap(self, options: int) -> None:
        pid, status = os.waitpid(self.pid, options)
        if pid:
            self._reaped, self._status = True, status


def _wait(child: _Child, reading: int, answers: Answers, timeout_s: float) -> str:
    """Take the child's answers in until its last word; return how it ended if there is none."""
    deadline = time.monotonic() + timeout_s
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    listening = True
    while (left := deadline - time.monotonic()) > 0:
        ready = poll.poll(min(left, _GLANCE_S) * 1_000)
        if ready and listening:
            data = os.read(reading, 1 << 20)
            answers.take(data)
            if answers.ended:
                return ""
            if answers.too_long:
                return "it filled the result pipe with what is no answer"
            if not data:
                listening = False
                poll.unregister(reading)
        elif child.has_ended() and not poll.poll(0):
            # Looked at once more: its last word may have come between the two looks.
            return child.how()
    return f"killed after {timeout_s:g} s"


def _refuse(layers: kernel.Layers) -> None:
    if not layers.enforced:
        missing = "; ".join(layers.reasons)
        raise SandboxUnavailable(
            f"the kernel can't enforce the sandbox here: {missing}; run where it can, or don't require it"
        )


def _captured(path: Path, closing: contextlib.ExitStack) -> int:
    # The body may put something else in the file's place; what is read in the end is the file that was opened here.
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    closing.callback(os.close, descriptor)
    return descriptor


def _output(descriptor: int) -> Output:
    size = os.fstat(descriptor).st_size
    if size <= OUTPUT_LIMIT:
        content = os.pread(descriptor, OUTPUT_LIMIT, 0)
    else:
        half = OUTPUT_LIMIT // 2
        content = os.pread(descriptor, half, 0) + b"\n...[cut]...\n" + os.pread(descriptor, half, size - half)
    return Output(text=content.decode("utf-8", "backslashreplace"), size=size)
