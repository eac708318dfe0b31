"""The child's life: set up, prepare, let go of what leads out, lock, do the body, tell."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from ..exceptions import SandboxUnavailable
from ..redaction import kept_text
from ..serialization import safe_text
from ..tracebacks import name_of, raised_at
from . import audit, inheritance, kernel, landlock, libc
from .answers import Teller
from .report import Raised

MESSAGE_LIMIT, TRACEBACK_LIMIT = 4_000, 20_000
"""Characters that are told of an error."""

_FORMER_STREAMS: list[object] = []
"""Kept: whoever drops the last reference to a stream writes out its buffer, and closes its descriptor."""


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What a child is forked for."""

    body: Callable[[], Any]
    prepare: Callable[[], Collection[int] | None] | None
    folder: Path
    require_kernel: bool
    parent: int
    answers: int
    """The pipe's end to write to."""
    stdout: int
    stderr: int


def live(errand: Errand) -> NoReturn:
    """Do the errand in the child that was forked for it, and end."""
    status = 1
    try:
        _live(errand)
        status = 0
    finally:
        # Nothing of the parent's is to run here: no handler of its exit, no test's teardown.
        os._exit(status)


def _live(errand: Errand) -> None:
    own = os.getpid()
    teller = Teller(fcntl.fcntl(errand.answers, fcntl.F_DUPFD_CLOEXEC, 3))
    stage = _Stage(errand, teller)
    raised: Raised | None = None
    value = None
    try:
        value = stage.run()
    except BaseException as error:  # SystemExit and KeyboardInterrupt end a body, and not us
        raised = _told(error, stage.name)
    if os.getpid() != own:
        # A process that the body forked came back from it, too.
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    _answer(teller, value, raised)


def _answer(teller: Teller, value: Any, raised: Raised | None) -> None:
    if raised is None:
        try:
            return teller.value(value)
        except BrokenPipeError:
            raise
        except Exception as error:  # such as a class of the body's that breaks when it is looked at
            raised = _told(error, "result")
    return teller.error(raised)


class _Stage:
    """The stages in their order; knows the one that is being done."""

    def __init__(self, errand: Errand, teller: Teller) -> None:
        self.name = "setup"
        self._errand = errand
        self._teller = teller

    def run(self) -> Any:
        errand = self._errand
        _stand_alone(errand.parent)
        _redirect(errand.stdout, errand.stderr)
        _write_nowhere_else(errand.folder)
        self.name = "prepare"
        keep = (errand.prepare() if errand.prepare else None) or ()
        self.name = "lock"
        self._lock(keep)
        self.name = "body"
        return errand.body()

    def _lock(self, keep: Collection[int]) -> None:
        errand, teller = self._errand, self._teller
        if sys.platform == "linux" and landlock.threads() > 1:
            raise SandboxUnavailable(
                "a thread runs in the child already, which could not be locked up; start none in os.register_at_fork()"
            )
        inheritance.let_go_of_files({0, 1, 2, teller.descriptor, *keep})
        inheritance.unshare_memory()
        layers = kernel.lock(errand.folder)
        if errand.require_kernel and not layers.enforced:
            teller.layers(layers)
            raise SandboxUnavailable(str(layers))
        audit.install(errand.folder, teller.blocked)
        teller.layers(replace(layers, audit=True))


def _stand_alone(parent: int) -> None:
    """Leave the parent's session, terminal and signal handlers; end when it does."""
    os.setsid()
    if sys.platform == "linux":
        libc.prctl(libc.PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)) and number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The kernel would write the remains of a crash where it likes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _redirect(stdout: int, stderr: int) -> None:
    # They may have one of the three numbers themselves.
    stdout, stderr = (fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3) for number in (stdout, stderr))
    stdin = os.open(os.devnull, os.O_RDONLY)
    for number, place in ((stdin, 0), (stdout, 1), (stderr, 2)):
        if number != place:
            os.dup2(number, place)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # type: ignore[misc] # noqa: SIM115
    _FORMER_STREAMS.extend((sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__))
    for name, place in (("stdout", 1), ("stderr", 2)):
        stream = open(place, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _write_nowhere_else(folder: Path) -> None:
    """Send there what the interpreter and C libraries write by themselves."""
    sys.dont_write_bytecode = True
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)


def _told(error: BaseException, stage: str) -> Raised:
    return Raised(
        stage=stage,
        type=name_of(error),
        message=kept_text(error, MESSAGE_LIMIT),
        traceback=safe_text(raised_at(error), TRACEBACK_LIMIT),
    )
