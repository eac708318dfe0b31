"""What a page says that a command prints, compared with what it prints."""

from __future__ import annotations

import re

_HEX = "[0-9a-f]"
_ID = rf"\b(?:{_HEX}{{32}}|{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}|{_HEX}{{8}})\b"
_VARIES = {
    "id": _ID,
    "time": r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?Z?",
    "node": r"celery@[\w.-]+(?:/\d+)?",
    "number": r"\b\d+\.\d+",
    "rest": "…",
    "space": " +",
}
"""What differs from reader to reader: anything of the same form will do. `…` is for all else."""
_TOKEN = re.compile("|".join(f"(?P<{name}>{form})" for name, form in _VARIES.items()))


class Mismatch(AssertionError):
    """A command printed something else."""


class Expectations:
    """Remembers which of a reader's own ids the ids on the page stand for."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def own(self, text: str) -> str:
        """Put the reader's ids in place of the page's, where they are known."""
        return re.sub(_ID, lambda found: self.ids.get(found[0], found[0]), text)

    def meet(self, expected: str, printed: str, *, whole: bool = True) -> None:
        """Compare, and learn what ids on the page stand for.

        Args:
            whole: False where more may come.

        Raises:
            Mismatch: it is something else.
        """
        names: dict[str, str] = {}
        pattern = "".join(self._line(line.rstrip(), names) for line in expected.rstrip().split("\n"))
        lines = [line.rstrip() for line in printed.rstrip().split("\n")]
        found = re.fullmatch(pattern + ("" if whole else r"[\s\S]*"), "\n".join(lines) + "\n")
        if found is None:
            raise Mismatch(f"expected:\n{expected}\nprinted:\n{printed}")
        self.ids.update({shown: found[name] for shown, name in names.items()})

    def _line(self, line: str, names: dict[str, str]) -> str:
        if line == _VARIES["rest"]:
            # Alone on its line it stands for any number of them.
            return r"(?:.*\n)*?"
        parts, end = [], 0
        for token in _TOKEN.finditer(line):
            parts += [re.escape(line[end : token.start()]), self._any(token, names)]
            end = token.end()
        return "".join([*parts, re.escape(line[end:]), r"\n"])

    def _any(self, token: re.Match[str], names: dict[str, str]) -> str:
        kind, shown = token.lastgroup or "", token[0]
        if kind == "rest":
            return ".*?"
        if kind != "id":
            return _VARIES[kind]
        if shown in self.ids:
            return re.escape(self.ids[shown])
        if shown in names:
            return f"(?P={names[shown]})"
        names[shown] = f"id{len(names)}"
        return f"(?P<{names[shown]}>{re.sub(_HEX, _HEX, shown)})"
