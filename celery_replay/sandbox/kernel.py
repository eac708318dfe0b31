"""What the kernel enforces on a process that has locked itself up: it needs no privilege, and can't be taken back."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from . import landlock, seccomp


@dataclass(frozen=True, kw_only=True)
class Layers:
    """Which layers of the sandbox are on."""

    seccomp: bool = False
    """The filter over system calls."""
    landlock: int = 0
    """Landlock's ABI; 0 if it is off."""
    audit: bool = False
    """The interpreter's audit hook, which is no barrier to code that goes round the interpreter."""
    reasons: tuple[str, ...] = ()
    """Why a layer of the kernel is off, one of each."""

    @property
    def enforced(self) -> bool:
        """Does the kernel enforce all of the sandbox?"""
        return self.seccomp and self.landlock > 0

    def __str__(self) -> str:
        names = ["seccomp"] * self.seccomp + [f"landlock {self.landlock}"] * (self.landlock > 0)
        missing = "; ".join(self.reasons)
        told = [f"kernel: {', '.join(names)}"] if names else []
        if not self.enforced:
            told.append(f"not enforced by the kernel: {missing or 'nothing was tried'}")
        return "; ".join([*told, f"interpreter: {'audit' if self.audit else 'nothing'}"])


def lock(folder: Path) -> Layers:
    """Lock this process up, for good: nothing leads out of it, and files are written beneath the folder only.

    To be called where no other thread runs. A layer that can't be had is left out, and the answer says why.
    """
    reasons = []
    version = 0
    try:
        version = landlock.install(folder)
    except OSError as error:
        reasons.append(f"landlock: {landlock.explain(error)}")
    filtered = False
    try:
        seccomp.install(truncation=not 0 < version < 3)
        filtered = True
    except OSError as error:
        reasons.append(f"seccomp: {error.strerror or error}")
    return Layers(seccomp=filtered, landlock=version, reasons=tuple(reasons))


def available() -> Layers:
    """Tell which layers can be had here; a forked child tries it, so that this process stays as it is."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _try_out(writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        told = answer.read()
    os.waitpid(pid, 0)
    if not told:
        return Layers(reasons=("the child that tried them died",))
    found = json.loads(told)
    return Layers(**{**found, "reasons": tuple(found["reasons"])})


def _try_out(writing: int) -> None:
    try:
        os.write(writing, json.dumps(asdict(lock(Path("/")))).encode())
    finally:
        os._exit(0)
