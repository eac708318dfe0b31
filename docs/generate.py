"""Fill the parts of the reference that the code knows best; `make docs` does that first.

A part stands between `<!-- generated: name -->` and `<!-- end -->`. A test compares the pages with the code.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import celery_replay
from celery_replay import cli, config, exceptions, headers, states
from celery_replay.replay import effects, operations, plan

PAGES = Path(__file__).parent / "reference"
_PART = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """Return a page with its generated parts as the code has them now."""
    return _PART.sub(lambda part: f"{part[1]}\n{_PARTS[part[2]]()}\n\n{part[4]}", page)


def _settings() -> str:
    told = _attribute_docs(config, "Settings")
    rows = ((f"`{config.PREFIX}{name}`", _default(told_of), told[name]) for name, told_of in _fields(config.Settings))
    return _table(("setting", "default", ""), rows)


def _fields(record: Any) -> Iterator[tuple[str, Any]]:
    made = record()
    return ((name, getattr(made, name)) for name in record.__dataclass_fields__)


def _default(value: Any) -> str:
    match value:
        case bool():
            return str(value)
        case int() | float():
            return f"{value:,}" + (f" ({value / 86_400:g} days)" if value >= 86_400 else "")
        case str() if value:
            return f"`{value}`"
        case _:
            return ""


def _words() -> str:
    enums = [(states, name) for name, kind in vars(states).items() if _is_words(kind)]
    return "\n\n".join(
        _words_of(module, name)
        for module, name in [*enums, (plan, "Hindrance"), (operations, "Standing"), (effects, "Certainty")]
    )


def _is_words(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, states.Word) and kind is not states.Word


def _words_of(module: ModuleType, name: str) -> str:
    kind, told = getattr(module, name), _attribute_docs(module, name)
    title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()
    rows = ((f"`{word.value}`", told.get(word.name, "")) for word in kind)
    return f"## {title}\n\n{kind.__doc__}\n\n{_table(('word', 'meaning'), rows)}"


def _errors() -> str:
    _import_all()
    found = sorted({*_tree(exceptions.ReplayError)}, key=lambda kind: kind.id)
    rows = ((f"`{kind.id}`", f"`{kind.__name__}`", *_cause_and_mend(kind)) for kind in found)
    return _table(("id", "exception", "cause", "mend"), rows)


def _import_all() -> None:
    """Import what defines errors, wherever that is: a class that is not loaded is not known."""
    for found in pkgutil.walk_packages(celery_replay.__path__, "celery_replay."):
        if not found.name.startswith(_ADAPTERS):
            importlib.import_module(found.name)


_ADAPTERS = ("celery_replay.contrib", "celery_replay.pytest_plugin")
"""They need what may not be installed, and define none."""


def _tree(kind: type[exceptions.ReplayError]) -> Iterator[type[exceptions.ReplayError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _tree(below)


def _cause_and_mend(kind: type[exceptions.ReplayError]) -> tuple[str, str]:
    cause, _, mend = kind().message.partition("; ")
    return f"{cause.rstrip('.')}.", mend[:1].upper() + mend[1:]


def _header() -> str:
    return (headers.__doc__ or "").partition("\n\n")[2].partition("\n\n")[2].partition("\n\n")[0]


def _overview() -> str:
    rows = ((f"`{_call(path, command)}`", _first(command)) for path, command in _leaves(cli.replay, ()))
    return _table(("command", "does"), rows)


def _commands() -> str:
    return "\n\n".join(_command(path, command) for path, command in _leaves(cli.replay, ()))


def _call(path: tuple[str, ...], command: click.Command) -> str:
    arguments = (a.metavar or f"{a.human_readable_name}" for a in command.params if isinstance(a, click.Argument))
    return " ".join([*path, *arguments])


def _first(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "").partition("\n\n")[0]


def _leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from _leaves(command.get_command(context, name), (*path, name))
    else:
        yield path, command


def _command(path: tuple[str, ...], command: click.Command) -> str:
    told = inspect.cleandoc(command.help or "").replace("\b\n", "")
    rows = [(_option(option), _help(option)) for option in command.params if isinstance(option, click.Option)]
    example = (command.epilog or "").rpartition("\n")[2].strip()
    table = _table(("option", ""), rows) if rows else ""
    parts = (f"### {' '.join(path)}", f"`replay {_call(path, command)}`", told, table, f"Example: `{example}`")
    return "\n\n".join(part for part in parts if part)


def _option(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.metavar or option.opts[0].strip('-').upper()}"
    return f"`{', '.join([*option.opts, *option.secondary_opts])}{value}`"


def _help(option: click.Option) -> str:
    needed = " Required." if option.required else ""
    default = f" Default: {option.default}." if option.show_default and option.default is not None else ""
    return f"{option.help or ''}{default}{needed}"


def _attribute_docs(module: ModuleType, name: str) -> dict[str, str]:
    """Return what stands below the attributes of a class, which Python forgets."""
    (found,) = (node for node in ast.parse(inspect.getsource(module)).body if getattr(node, "name", "") == name)
    told = {}
    for field, text in zip(found.body, found.body[1:], strict=False):
        target = field.targets[0] if isinstance(field, ast.Assign) else getattr(field, "target", None)
        if isinstance(target, ast.Name) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            told[target.id] = " ".join(str(text.value.value).split())
    return told


def _table(titles: tuple[str, ...], rows: Any) -> str:
    lines = [titles, ("---",) * len(titles), *rows]
    return "\n".join("| " + " | ".join(cell.replace("\n", " ") for cell in line) + " |" for line in lines)


_PARTS: dict[str, Callable[[], str]] = {
    "settings": _settings,
    "words": _words,
    "errors": _errors,
    "header": _header,
    "overview": _overview,
    "commands": _commands,
}

if __name__ == "__main__":
    for page in PAGES.glob("*.md"):
        page.write_text(filled(page.read_text()))
