"""Which statements would end a shadow's transaction, or do something that its rollback does not take back.

It reads SQL as PostgreSQL's own lexer does, as far as quotes and comments go. It is no barrier to code that hides
what it does, such as in a function on the server: there the role's rights and the READ ONLY transaction hold.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

OURS = "celery_replay_"
"""What the names of a shadow's own savepoints begin with."""

_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*)
    |(?P<text>\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$)
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<word>[^\W\d][\w$]*)
    |(?P<end>;)
    |(?P<sign>\S)""",
    re.DOTALL | re.VERBOSE,
)
_NESTED = re.compile(r"/\*|\*/")

_REACHES_OUT = re.compile(
    r"dblink\w*|pg_(?:try_)?advisory_\w+|pg_(?:terminate|cancel)_backend|pg_(?:create|drop|copy)_\w+"
    r"|pg_(?:replication_\w+|stat_reset\w*|file_\w+|backup_\w+|wal_replay_\w+|start_backup|stop_backup|promote)"
    r"|pg_(?:logical_\w+|reload_conf|rotate_logfile|switch_wal|export_snapshot|log_\w+)"
    r"|lo_(?:import|export|creat|create|unlink|put|from_bytea|truncate|truncate64)|lowrite"
)
"""Functions of the server whose work stays after a rollback, or is done by another session."""
_PLAIN = re.compile(r"\s*(?:select|insert|update|delete|fetch)\b", re.IGNORECASE)
"""What most statements begin with."""
_ENDS = frozenset({"begin", "start", "commit", "end", "abort", "discard"})
_OF_THE_SESSION = re.compile(
    r"role|session_authorization|authorization|characteristics|(?:default_)?transaction\w*|all"
)


class Token(NamedTuple):
    """A word, a quoted name, a text or a sign."""

    kind: str
    text: str

    @property
    def name(self) -> str:
        """What it names; empty where it is no name."""
        if self.kind == "quoted":
            return self.text[1:-1].replace('""', '"')
        return self.text.lower() if self.kind == "word" else ""


def statements(sql: str) -> Iterator[Sequence[Token]]:
    """Split what may be several statements; comments are left out."""
    found: list[Token] = []
    place = 0
    while (match := _TOKEN.search(sql, place)) is not None:
        place = match.end()
        kind = str(match.lastgroup)
        if kind == "comment":
            place = _behind(sql, match)
        elif kind == "end":
            yield found
            found = []
        else:
            found.append(Token(kind, match.group()))
    yield found


def _behind(sql: str, opened: re.Match[str]) -> int:
    """Return where a comment ends: PostgreSQL's nest."""
    depth, place = int(opened.group() == "/*"), opened.end()
    while depth and (mark := _NESTED.search(sql, place)) is not None:
        depth += 1 if mark.group() == "/*" else -1
        place = mark.end()
    return len(sql) if depth else place


def objection(sql: str, tables: Container[str]) -> str | None:
    """Return the command or the function that is refused, in its own words and without values; None if none is.

    Args:
        tables: those that have a copy, which may be locked.
    """
    if _PLAIN.match(sql) and ";" not in sql and not _REACHES_OUT.search(sql.lower()):
        # To read an INSERT of many rows takes longer than to fill them in.
        return None
    return _objection(sql, tables)


def _objection(sql: str, tables: Container[str]) -> str | None:
    for tokens in statements(sql):
        found = (_command(tokens, tables) if tokens else None) or next(_functions(tokens), None)
        if found is not None:
            return found
    return None


def summary(sql: str) -> str:
    """Say in a few words what a statement is, and which table it is about first; no values."""
    for tokens in statements(sql):
        if tokens:
            names = [token.name for token in tokens]
            first = next((place for place, name in enumerate(names) if name in _BEFORE_TABLES), len(names))
            named = [name for name in names[first + 1 :] if name not in _BESIDE_TABLES]
            return " ".join([tokens[0].text.upper(), *named[:1]])
    return ""


def notifies(sql: str) -> bool:
    """Does it tell other sessions something, once its transaction is committed?"""
    return "notify" in sql.lower() and any(
        tokens and (tokens[0].name == "notify" or any(token.name == "pg_notify" for token in tokens))
        for tokens in statements(sql)
    )


def _command(tokens: Sequence[Token], tables: Container[str]) -> str | None:
    names = [token.name for token in tokens]
    judge = _COMMANDS.get(names[0])
    refused = names[0] in _ENDS or (judge is not None and judge(names, tokens, tables))
    told = [token.text.upper() for token in tokens[:3] if token.kind == "word" and token.text.lower() in _TOLD]
    return " ".join(told or [names[0].upper()]) if refused else None


def _functions(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if _REACHES_OUT.fullmatch(token.name):
            yield token.name
        elif token.kind == "text" and tokens[0].name == "do":
            for inner in statements(_unquoted(token.text)):
                yield from _functions(inner)


def _unquoted(text: str) -> str:
    if text.startswith("$"):
        length = text.index("$", 1) + 1
        return text[length:-length]
    return text.partition("'")[2][:-1].replace("''", "'")


def _rolls_all_back(names: Sequence[str], *_: object) -> bool:
    return "to" not in names[1:3] or _names_ours(names)


def _names_ours(names: Sequence[str], *_: object) -> bool:
    return any(name.startswith(OURS) for name in names)


def _sets_the_session(names: Sequence[str], *_: object) -> bool:
    place = 2 if names[1:2] in (["session"], ["local"]) else 1
    return any(_OF_THE_SESSION.fullmatch(name) for name in names[place : place + 1])


def _locks_live(names: Sequence[str], _: object, tables: Container[str]) -> bool:
    start = 2 if names[1:2] == ["table"] else 1
    stop = names.index("in") if "in" in names else len(names)
    return any(name not in tables for name in names[start:stop] if name not in ("", "only", "nowait"))


def _copies_elsewhere(names: Sequence[str], *_: object) -> bool:
    return not {"stdin", "stdout"} & {*names}


_COMMANDS = {
    "rollback": _rolls_all_back,
    "savepoint": _names_ours,
    "release": _names_ours,
    "prepare": lambda names, *_: names[1:2] == ["transaction"],
    "set": _sets_the_session,
    "reset": _sets_the_session,
    "lock": _locks_live,
    "copy": _copies_elsewhere,
    "load": lambda *_: True,
    "checkpoint": lambda *_: True,
}
_BEFORE_TABLES = frozenset({"into", "update", "from", "table", "truncate"})
_BESIDE_TABLES = frozenset({"", "only", "table", "if", "not", "exists", "public"})
_TOLD = frozenset({
    *_ENDS, *_COMMANDS, "transaction", "prepared", "role", "session", "local", "authorization", "characteristics",
    "all", "transaction_read_only", "default_transaction_read_only", "table",
})  # fmt: skip
