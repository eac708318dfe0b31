"""Derived data: what can be made again from the events of one entity, such as a search index or a total."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from .exceptions import ConfigurationError
from .leases import taken
from .records import Event, evolve
from .serialization import safe_text
from .stores.base import Store
from .templates import KEY_FORMATTER, resource_name
from .trace import timeline

_SCAN = 1_000_000
"""Jobs that are gone through at most."""


@dataclass(frozen=True, kw_only=True)
class Derived:
    """A declaration."""

    name: str
    of: str
    """Template of the resource that stands for the entity, such as `order:{order_id}`."""
    check: Callable[..., Any]
    """Gets the template's values by their names; returns what is wrong as text or texts, nothing where all is well."""
    rebuild: Callable[..., Any]
    """Gets the events, in order, and then as `check` does."""
    failed: bool
    """Whether it also gets events of attempts that did not succeed."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in the template, in their order."""
        return tuple(dict.fromkeys(name for _, name, _, _ in KEY_FORMATTER.parse(self.of) if name))

    def resource(self, values: Mapping[str, Any]) -> str:
        """Return the name of an entity's resource."""
        return resource_name(KEY_FORMATTER.vformat(self.of, (), values))


@dataclass(frozen=True, kw_only=True)
class History:
    """What is known of an entity."""

    events: Sequence[Event]
    """By fence, then as their attempt recorded them; `fence` is that of the entity's lease."""
    missing: int = 0
    """Leases on it of which no event is left: pruned, reduced to counts, or never recorded."""


_declared: dict[str, Derived] = {}


def derived(
    name: str, *, of: str, check: Callable[..., Any], rebuild: Callable[..., Any], failed: bool = False
) -> Derived:
    """Declare derived data, so that `celery replay derived` can check it and make it again.

    Args:
        of: template of a resource that all tasks name in `resources=` that change the entity.
        check: looks whether it is right; returns what is wrong as text or texts, nothing where all is well.
        rebuild: makes it again; its first argument is a list of the entity's events.
        failed: give it events of attempts that did not succeed, too.

    Raises:
        ConfigurationError: the template has no parameter, a function does not take it, or the name is taken.
    """
    found = Derived(name=name, of=of, check=check, rebuild=rebuild, failed=failed)
    parameters = found.parameters
    if not parameters or not all(map(str.isidentifier, parameters)):
        raise ConfigurationError(f"derived {name!r}: of={of!r} must name values, such as order:{{order_id}}")
    _see_signature(name, "check", check, (), parameters)
    _see_signature(name, "rebuild", rebuild, ([],), parameters)
    known = _declared.get(name)
    if known is not None and known.of != of:
        raise ConfigurationError(f"derived {name!r} is declared twice, of {known.of!r} and of {of!r}")
    _declared[name] = found
    return found


def _see_signature(name: str, what: str, function: Callable[..., Any], given: Any, parameters: Iterable[str]) -> None:
    try:
        inspect.signature(function).bind(*given, **dict.fromkeys(parameters))
    except TypeError as error:
        names = ", ".join(parameters)
        raise ConfigurationError(f"derived {name!r}: {what}= must take {names} by name: {error}") from error


def declared() -> Mapping[str, Derived]:
    """Return what is declared in this process, by name."""
    return dict(sorted(_declared.items()))


def problems(one: Derived, values: Mapping[str, Any]) -> list[str]:
    """Check an entity; return what is wrong, nothing where all is well.

    Raises:
        ConfigurationError: the check returned what is no text.
    """
    found = one.check(**values)
    told: list[Any] = [found] if isinstance(found, (str, bool)) else list(found or ())
    if not all(isinstance(text, str) for text in told):
        raise ConfigurationError(
            f"derived {one.name!r}: check= returned {safe_text(repr(found), 100)}; it must return what is wrong as "
            "text, or nothing"
        )
    return [text for text in told if text]


def history_of(store: Store, one: Derived, values: Mapping[str, Any]) -> History:
    """Return the events of all attempts that had the entity's lease, in the order of their fences.

    Where more had it than a store remembers by name, all jobs are gone through: that takes its time.
    """
    resource = one.resource(values)
    lease = store.lease(resource)
    if lease is None:
        return History(events=())
    store.count_up()
    holders = {(holding.trace_id, holding.nonce) for holding in store.holdings(resource)}
    if lease.nonce:
        holders.add((lease.trace_id, lease.nonce))
    known = len(holders) >= lease.grants
    traces = {trace for trace, _ in holders} if known else _every_trace(store)
    found: list[tuple[int, int, Event]] = []
    seen: set[str] = set()
    for trace in traces:
        events = timeline(store, trace)
        for nonce, fence in _fences(events, resource).items():
            seen.add(nonce)
            own = [event for event in events if event.attempt == nonce]
            if one.failed or any(event.name == "succeeded" for event in own):
                found += [(fence, event.sequence, evolve(event, fence=fence)) for event in own]
    found.sort(key=itemgetter(0, 1))
    return History(events=[event for _, _, event in found], missing=max(lease.grants - len(seen), 0))


def _fences(events: Iterable[Event], resource: str) -> dict[str, int]:
    """Return which attempts had a resource, with their tokens."""
    return {
        event.attempt: event.fence
        for event in events
        if event.name == "lease_acquired" and event.fence is not None and event.attributes.get("resource") == resource
    }


def _every_trace(store: Store) -> Iterator[str]:
    yield from dict.fromkeys(job.trace_id for job in store.oldest_jobs(store.now(), _SCAN))


def held(store: Store, resource: str) -> str:
    """Say who has an entity now, and may be changing it; empty where nobody does."""
    lease = store.lease(resource)
    if lease is None or not taken(lease, store.now()):
        return ""
    return f"{lease.operation} {lease.submission} on {lease.worker}"
