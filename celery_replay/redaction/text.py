"""Secrets in free text: error messages, addresses, command lines, the text of objects.

All patterns take a time that grows with the text's length and no faster, whatever the text is. Each begins only where
a word begins, and what was found to be a value is never walked through again.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ..serialization import safe_text
from .names import is_secret

REDACTED = "[redacted]"

_SCHEME = re.compile(
    r"""(?<![\w-])(?:
      (?P<bearer>bearer[ \t]{1,4})[\w.~+/=-]{8,}
    | (?P<other>(?:basic|negotiate|apikey)[ \t]{1,4})(?!(?-i:[a-z]{1,20})(?![\w.~+/=-]))[\w.~+/=-]{8,}
    | (?P<token>token[ \t]{1,4})(?=[\w.~+/=-]*[a-z])(?=[\w.~+/=-]*\d)[\w.~+/=-]{16,}
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""Credentials behind the name of their scheme; a word of prose, or a number, behind it is none."""
_SCHEMES = ("bearer", "basic", "token", "negotiate", "apikey")
_USERINFO = re.compile(r"(?<=://)([^/\s:@]*):([^/\s]+)(?=@)")
_LOOKS = re.compile(
    r"""(?<![\w-])(?:
      eyJ[\w-]{8,}\.[\w.-]+                          # JSON web tokens
    | (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])      # AWS
    | (?:gh[oprsu]|npm|hf)_[A-Za-z0-9]{20,} | (?:github_pat|dop_v1)_\w{20,}
    | (?:sk|rk)_(?:live|test)_\w{8,} | whsec_[\w+/=]{16,}   # Stripe
    | sk-(?=[\w-]*\d)[\w-]{20,}                     # OpenAI, Anthropic
    | (?:glpat|pypi|xox[a-z])-[\w-]{10,}
    | AIza[\w-]{30,} | ya29\.[\w.-]{20,}            # Google
    | SG\.[\w-]{16,}\.[\w-]{16,}                    # SendGrid
    )""",
    re.VERBOSE,
)
"""Keys that are known by how they look."""
_LOOKS_BEGIN = (
    "eyJ", "AKIA", "ASIA", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "npm_", "hf_", "github_pat_", "dop_v1_", "_live_",
    "_test_", "whsec_", "sk-", "glpat-", "pypi-", "xox", "AIza", "ya29.", "SG.",
)  # fmt: skip
_LOOKS_SHORTEST = 16
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----).*?(?=-----END |\Z)", re.DOTALL)
_AZURE_KEY = re.compile(r"(?<=AccountKey=)[\w+/]{20,}=*")

# Each alternative begins with a letter of its own: so the engine skips at once what is none of them.
_SIGN = re.compile(
    r"""(?:
      =(?!=)>?(?P<equals>) | :(?:=(?P<becomes>)|(?![:/])(?P<colon>))
    | ",(?P<pair>) | ',(?P<pair_>)
    | -(?<![\w-]-)-(?P<option>[\w-]+)(?:["'],?)?[ \t]
    )[ \t]{0,4}""",
    re.VERBOSE,
)
"""What stands between a name and its value: `a=`, `a: `, `'a': `, `a[b]=`, `('a', `, `--a `."""
_NAME_BEFORE = re.compile(r"""[ \t]{0,4}([\]\\"']{0,8})([\w.-]{1,100})""")
"""A name before a sign, read backwards."""
_FAR = 120
_QUOTE = re.compile(r"""[bBfFrRuU]{0,2}(\\{0,8})(["'])""")
_OPENS = re.compile(r"[\w.]{0,100}([\[({<])")
_BARE = re.compile(r"""[^\s&;,"'`)\]}>]+""")
_LINE = re.compile(r"""[^\r\n"'`]+""")
_HEADER = re.compile(r"authori|cookie", re.IGNORECASE)
"""Names of headers whose values have several words."""
_ANGLE_OR_LINE = re.compile(r"[>\n]")
_WITHIN = re.compile(r"""["'\[\](){}\n]""")
_HARMLESS = re.compile(r"[A-Za-z][a-z]{0,40}(?![\w.~+/=-])|(?<=:)\d{1,5}(?!\w)")
"""A word of prose, or a port, behind a name with a colon."""
_PROSE = re.compile(r"\w[ \t]\Z")


def redact_text(text: str, known: Collection[str] = ()) -> str:
    """Replace what is secret in free text, by its look or by the name before it.

    Args:
        known: values that are known to be secret.
    """
    if not known and len(text) < _LOOKS_SHORTEST and text.isalnum():
        # A word or a number: there is no sign in it, and it is too short for a key.
        return text
    for value in known:
        text = text.replace(value, REDACTED)
    # A look for a sign that must be there is a hundred times as fast as the pattern.
    if " " in text and _has_scheme(text.lower()):
        text = _SCHEME.sub(lambda found: f"{found[found.lastgroup or 0]}{REDACTED}", text)
    if "://" in text:
        text = _USERINFO.sub(rf"\1:{REDACTED}", text)
    if len(text) >= _LOOKS_SHORTEST:
        text = _redact_keys(text)
    if "=" in text or ":" in text or "--" in text or "'," in text or '",' in text:
        text = _redact_named(text)
    return text


def _has_scheme(text: str) -> bool:
    # A loop, as a generator takes twice as long, and this is asked of every text.
    for scheme in _SCHEMES:  # noqa: SIM110
        if scheme in text:
            return True
    return False


def _redact_keys(text: str) -> str:
    for sign in _LOOKS_BEGIN:
        if sign in text:
            text = _LOOKS.sub(REDACTED, text)
            break
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(rf"\1{REDACTED}", text)
    return _AZURE_KEY.sub(REDACTED, text) if "AccountKey=" in text else text


def kept_text(value: object, limit: int, known: Collection[str] = ()) -> str:
    """Return text that may be kept: redacted first and cut then, as half a secret is not known for one."""
    return safe_text(redact_text(safe_text(value, limit * 4), known), limit)


@dataclass(frozen=True, slots=True)
class _Name:
    """A secret name in a text."""

    name: str
    begin: int
    at: int
    """Where its value begins."""
    sign: str
    quoted: bool

    @classmethod
    def before(cls, found: re.Match[str], text: str) -> _Name | None:
        """Return the name that a sign belongs to, if it says that its value is secret."""
        begin, sign = found.start(), str(found.lastgroup).rstrip("_")
        if sign == "option":
            return cls(found[sign], begin, found.end(), sign, False) if is_secret(found[sign]) else None
        before = _NAME_BEFORE.match(text[max(0, begin - _FAR) : begin][::-1])
        if before is None or not is_secret(before[2][::-1]):
            return None
        return cls(before[2][::-1], begin - before.end(), found.end(), sign, bool(before[1]))


def _redact_named(text: str) -> str:
    pieces: list[str] = []
    done = at = 0
    while (found := _SIGN.search(text, at)) is not None:
        at = found.end()
        name = _Name.before(found, text)
        if name is None:
            continue
        start, end = _value(text, name)
        if end > start:
            pieces += (text[done:start], REDACTED)
            done = end
        at = max(at, end)
    return "".join((*pieces, text[done:])) if pieces else text


def _value(text: str, name: _Name) -> tuple[int, int]:
    """Return where the value behind a name begins and ends; the same place, if there is none to be redacted."""
    at, is_pair = name.at, name.sign == "pair"
    quote = _QUOTE.match(text, at)
    if quote is not None:
        start, end = quote.end(), _end_of_quoted(text, quote.end(), quote[2], len(quote[1]))
        return (at, at) if is_pair and not _is_pair(text, name.begin, end) else (start, end)
    if is_pair:
        return at, at
    opening = _OPENS.match(text, at)
    if opening is not None:
        return at, _closing(text, opening.end(), opening[1], many_lines=name.quoted)
    return at, _end_of_bare(text, name)


def _is_pair(text: str, begin: int, end: int) -> bool:
    """Is it a tuple or list of a name and a value, or an option and its argument in a list of those?"""
    before = text[max(0, begin - 3) : begin].rstrip("bru\"'")
    return (before[-1:] in ("(", "[") and text[end + 1 : end + 2] in (")", "]")) or text.startswith("--", begin)


def _end_of_quoted(text: str, start: int, sign: str, escape: int = 0) -> int:
    """Return where a quotation ends: at its sign, which has as many backslashes before it as the first one had.

    One that was cut ends with the text.
    """
    at = text.find(sign, start)
    while at >= 0:
        before = text[max(start, at - 64) : at]
        depth = len(before) - len(before.rstrip("\\"))
        if depth == escape or (not escape and depth % 2 == 0):
            return at - escape
        at = text.find(sign, at + 1)
    return len(text)


def _closing(text: str, at: int, sign: str, *, many_lines: bool) -> int:
    """Return where a bracket that was opened is closed again; a call in a line of code may be cut at its end."""
    if sign == "<":
        found = _ANGLE_OR_LINE.search(text, at)
        return found.start() if found else len(text)
    depth = 1
    while depth:
        found = _WITHIN.search(text, at)
        if found is None:
            return len(text)
        sign, at = found[0], found.end()
        if sign == "\n":
            if not many_lines:
                return at - 1
        elif sign in "\"'":
            at = _end_of_quoted(text, at, sign) + 1
        else:
            depth += 1 if sign in "[({" else -1
    return at


def _end_of_bare(text: str, name: _Name) -> int:
    """Return where a value without quotes ends: at the end of its line, for headers with several words."""
    at, by_colon = name.at, name.sign == "colon"
    is_line = by_colon and _HEADER.search(name.name) is not None
    if by_colon and not is_line and not name.quoted and _is_harmless(text, name.begin, at):
        return at
    bare = (_LINE if is_line else _BARE).match(text, at)
    return bare.end() if bare else at


def _is_harmless(text: str, begin: int, at: int) -> bool:
    """Is it prose, as in "invalid token: unexpected end", or the address of a host that is called so?"""
    if _HARMLESS.match(text, at) is None:
        return False
    return text[at].isdigit() or _PROSE.search(text, max(0, begin - 2), begin) is not None
