"""A payload mended by somebody who does not see its secrets: they stand there redacted, and stay what they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kombu.utils.json import dumps, loads

from .. import dead_letters
from ..redaction import REDACTED, redact
from . import message as messages
from .fitting import PayloadUnfit


@dataclass(frozen=True, kw_only=True)
class Form:
    """A payload as plain JSON data."""

    args: list[Any]
    kwargs: dict[str, Any]


def plain(message: bytes) -> Form:
    """Return a kept message's payload as it is.

    Raises:
        PayloadUnreadable: it is not JSON, or damaged.
    """
    payload = messages.read(message)
    # Celery's own JSON, in which dates and the like are marked.
    return Form(args=json.loads(dumps(list(payload.args))), kwargs=json.loads(dumps(dict(payload.kwargs))))


def readable(message: bytes) -> Form:
    """Return a kept message's payload with its secrets redacted.

    Raises:
        PayloadUnreadable: it is not JSON, or damaged.
    """
    return _redacted(plain(message), dead_letters.positions(message))


def meant(message: bytes, args: str, kwargs: str) -> tuple[list[Any], dict[str, Any]]:
    """Return what the payload shall be that somebody wrote, who saw it as `readable` shows it.

    What is redacted there and was left as it was stays the secret that it is; also where it moved within its list, or
    from its position to its parameter's name.

    Args:
        message: the one that was shown.
        args: a JSON list.
        kwargs: a JSON object.

    Raises:
        PayloadUnfit: it is no JSON, of another kind, or a redacted value stands where none was.
        PayloadUnreadable: the message can't be read.
    """
    given = Form(args=_parsed("args", args, list), kwargs=_parsed("kwargs", kwargs, dict))
    kept, names = plain(message), dead_letters.positions(message)
    shown = _redacted(kept, names)
    # By their names, too: an argument may be given by its name from now on.
    whole, seen = ({**dict(zip(names, form.args, strict=False)), **form.kwargs} for form in (kept, shown))
    found = [restored(shown.args, given.args, kept.args), restored(seen, given.kwargs, whole)]
    # Celery's own JSON again.
    decoded: tuple[list[Any], dict[str, Any]] = tuple(loads(json.dumps(part)) for part in found)
    return decoded


def restored(shown: Any, given: Any, kept: Any) -> Any:
    """Put back into plain data what was redacted for whoever edited it, and was left as it was.

    Args:
        shown: the data as it was shown.
        given: what was made of that.
        kept: the data as it is.

    Raises:
        PayloadUnfit: something redacted stands where it can't be told what it is.
    """
    found = _restored(shown, given, kept)
    if _marks(found) > _marks(kept):
        raise PayloadUnfit(
            f"{REDACTED} stands where something else was hidden: leave it where it was, or write the value"
        )
    return found


def _redacted(payload: Form, names: Sequence[str]) -> Form:
    nameless = [""] * (len(payload.args) - len(names))
    args = [redact(value, name) for name, value in zip([*names, *nameless], payload.args, strict=False)]
    return Form(args=args, kwargs=redact(payload.kwargs))


def _parsed(name: str, text: str, kind: type[Any]) -> Any:
    try:
        found = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique)
    except RecursionError as error:
        raise PayloadUnfit(f"{name} is nested too deeply") from error
    except ValueError as error:
        raise PayloadUnfit(f"{name} is no JSON: {error}") from error
    if not isinstance(found, kind):
        raise PayloadUnfit(f"{name} must be a JSON {'list' if kind is list else 'object'}")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{json.dumps(name)} stands there twice")
        found[name] = value
    return found


def _same(one: Any, other: Any) -> bool:
    # Not by ==, to which true is 1.
    return bool(dumps(one, sort_keys=True) == dumps(other, sort_keys=True))


def _restored(shown: Any, given: Any, kept: Any) -> Any:
    if _same(given, shown):
        return kept
    if all(isinstance(each, dict) for each in (shown, given, kept)):
        known = shown.keys() & kept.keys()
        return {n: _restored(shown[n], item, kept[n]) if n in known else item for n, item in given.items()}
    if all(isinstance(each, list) for each in (shown, given, kept)):
        return _restored_list(shown, given, kept)
    return given


def _restored_list(shown: list[Any], given: list[Any], kept: list[Any]) -> list[Any]:
    places = [[place for place, item in enumerate(shown) if _same(item, each)] for each in given]
    still = len(given) == len(shown) == len(kept)
    if still and all(not found or place in found for place, found in enumerate(places)):
        return list(map(_restored, shown, given, kept))
    # Something moved: only what is like no other can be told.
    return [kept[found[0]] if len(found) == 1 else each for found, each in zip(places, given, strict=True)]


def _marks(value: Any) -> int:
    """Count what stands for something else."""
    return sum(text.count(REDACTED) + text.count("…[cut]") for text in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
