"""What a task declares as text over its arguments: its idempotency key, and the names of its resources."""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from . import hooks
from .exceptions import ConfigurationError
from .serialization import canonical_json, digest, has_address, safe_text

NAME_LIMIT = 200
"""Characters of a resource's name; of a longer one the beginning is kept, with a digest of it all."""


class KeyFormatter(string.Formatter):
    """Formats values by their canonical text, so that publisher and worker agree."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format by the spec where there is one."""
        if type(value) is int and not format_spec:
            return str(value)
        if isinstance(value, str):
            # An enum of text shows its name, and the text once it has been sent.
            value = str.__str__(value)
        if format_spec:
            return str(format(value, format_spec))
        return value if isinstance(value, str) else canonical_json(value).strip('"')

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        """Convert; `!s` is the canonical text, too."""
        return self.format_field(value, "") if conversion == "s" else super().convert_field(value, conversion)


KEY_FORMATTER = KeyFormatter()


def text_function(
    name: str, option: str, declared: Any, signature: inspect.Signature | None
) -> Callable[[Mapping[str, Any]], str]:
    """Compile a declaration into a function that makes a text of a call's bound arguments; "" where it has none.

    Args:
        declared: a template over the task's parameters, or a callable that takes those that it names.

    Raises:
        ConfigurationError: a template names what is no parameter.
    """
    if callable(declared):
        call = hooks.by_name(declared, signature)
        return lambda bound: _text(name, option, call(bound))
    known = set(signature.parameters) if signature else set()
    parts = list(KEY_FORMATTER.parse(declared))
    for _, path, _, _ in parts:
        root = path.partition(".")[0].partition("[")[0] if path is not None else None
        if root is not None and root not in known:
            names = ", ".join(sorted(known)) or "none"
            raise ConfigurationError(
                f"task {name}: {option}={declared!r} names {root!r}, which is no parameter of the task ({names})"
            )
    if all(field is None or (field in known and not spec and not conversion) for _, field, spec, conversion in parts):
        # Names of parameters and nothing else: the formatter would parse the template for every job.
        pieces = [(literal, field) for literal, field, _, _ in parts]
        return lambda bound: _text(name, option, "".join(_pieces(pieces, bound)))
    return lambda bound: _text(name, option, KEY_FORMATTER.vformat(declared, (), bound))


def _pieces(pieces: Iterable[tuple[str, str | None]], bound: Mapping[str, Any]) -> Iterator[str]:
    for literal, name in pieces:
        yield literal
        if name is not None:
            yield KEY_FORMATTER.format_field(bound[name], "")


def _text(name: str, option: str, given: Any) -> str:
    """Take what a declaration gave; None and "" say that this call has none."""
    text = "" if given is None else str(given)
    if has_address(text):
        raise ConfigurationError(
            f"task {name}: {option} gave {text!r}, which has an object's address in it and is another one in "
            "every process; use one of its attributes"
        )
    return text


def resource_name(text: str) -> str:
    """Return a resource's name as it is stored."""
    if len(text) > NAME_LIMIT:
        text = f"{text[: NAME_LIMIT - 33]}~{digest(text)}"
    return safe_text(text, 2 * NAME_LIMIT)


def fence_name(resource: str) -> str:
    """Return the name under which a target knows a resource; no job has one like it."""
    return f"lease:{resource_name(resource)}"


def names_function(
    name: str, option: str, declared: Any, signature: inspect.Signature | None
) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    """Compile a declaration into a function that makes names of a call's bound arguments: sorted, each once.

    Args:
        declared: templates or callables, or one callable that gives all names.

    Raises:
        ConfigurationError: a template names what is no parameter.
    """
    if callable(declared):
        call = hooks.by_name(declared, signature)
        return lambda bound: _names(name, option, call(bound))
    parts = (declared,) if isinstance(declared, str) else declared
    functions = [text_function(name, option, part, signature) for part in parts]
    return lambda bound: _names(name, option, [function(bound) for function in functions])


def _names(name: str, option: str, given: Any) -> tuple[str, ...]:
    found = (given,) if given is None or isinstance(given, str) else given
    texts = (_text(name, option, text) for text in found)
    return tuple(sorted({resource_name(text) for text in texts if text}))
