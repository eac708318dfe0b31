"""The Lua scripts, each with what all of them share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Script:
    """One script: its text, and the digest by which the server knows it."""

    source: bytes
    sha: bytes


def _script(name: str) -> Script:
    folder = files(__package__) / "lua"
    source = (folder / "common.lua").read_bytes() + (folder / f"{name}.lua").read_bytes()
    return Script(source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


OPEN, CLOSE, CLAIM = _script("open"), _script("close"), _script("claim")
LOOK, COMMIT, ADVANCE = _script("look"), _script("commit"), _script("advance")
FIND, PRUNE, MEET = _script("find"), _script("prune"), _script("meet")
TAKE, TOLD = _script("take"), _script("told")
