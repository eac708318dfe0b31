"""Which names say that their values are secret."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_ANYWHERE = (
    r"pass_?(?:word|wd|phrase|code)|pwd|secret|token|authori[sz]ation|cookie|credential|[cx]srf"
    r"|sess(?:ion)?_?(?:id|key)|(?:api|access|private|auth|signing|encryption|master|shared|ssh)_?key"
)
_AT_THE_END = r"(?:^|_)(?:auth|bearer|cvc|cvv|jwt|otp|pass|pin|sig|signature)(?:_?\d{1,4})?$"
"""Words that others contain, or that begin the names of harmless things."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN = re.compile(r"\W")
_LONGEST = 200
"""Characters; of a longer name the beginning and the end count."""

_learned: frozenset[str] = frozenset()
_secret = re.compile(f"{_ANYWHERE}|{_AT_THE_END}")


def learn(patterns: Iterable[str]) -> None:
    """Know more secret names from now on, in all of this process.

    Args:
        patterns: names, with `*` at the beginning, the end or both for any text. Case does not count, nor does
            whether words are joined by `-`, `_` or capitals.
    """
    global _learned, _secret
    known = _learned | set(patterns)
    if known != _learned:
        # Literals and anchors, joined by "or": whatever the name is, that takes no more than one walk for each.
        own = (_expression(pattern) for pattern in sorted(known))
        _learned, _secret = known, re.compile("|".join((_ANYWHERE, _AT_THE_END, *own)))
        _says_secret.cache_clear()


def _expression(pattern: str) -> str:
    core = re.escape(_plain(pattern.strip("*")))
    return f"{'' if pattern.startswith('*') else '^'}{core}{'' if pattern.endswith('*') else '$'}"


def is_secret(name: str) -> bool:
    """Does a field's name say that its value is secret?"""
    return _says_secret(name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}{name[-_LONGEST // 2 :]}")


@lru_cache(maxsize=4096)
def _says_secret(name: str) -> bool:
    return _secret.search(_plain(name)) is not None


def _plain(name: str) -> str:
    """Write a name as `words_with_underscores`, however it joins its words."""
    return _BETWEEN.sub("_", _HUMP.sub("_", name)).lower()
