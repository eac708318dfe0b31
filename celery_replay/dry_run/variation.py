"""What a run has otherwise than what was recorded: plain data, that can be stored and sent to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ..exceptions import ReplayError
from ..policy import OPTIONS
from ..snapshots.capture import BEFORE
from ..states import Word

Data = dict[str, Any]

DEPTH = 3
"""How deep a run follows what is published, where nobody says how deep."""
MOST_DEPTH = 20
MOST_JOBS = 1_000


class VariationUnfit(ReplayError):
    """A run can't be varied so; the message says what it may be."""

    id = "variation-unfit"


class Cache(Word):
    """What a dry run reads from the task's caches."""

    RECORDED = "recorded"
    """What was read then is there; of what was not read then, nothing."""
    BYPASS = "bypass"
    """Nothing is ever found."""
    SANDBOX = "sandbox"
    """An empty cache, which keeps what the run writes."""


@dataclass(frozen=True, kw_only=True)
class Variation:
    """What is other than it was. Without any argument nothing is: that is a dry run."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Other arguments of the task, by the names of today's parameters."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other options of the task."""
    stubs: Mapping[str, Any] = field(default_factory=dict)
    """By the names of steps, what they give in place of what is recorded."""
    live: tuple[str, ...] = ()
    """Names of steps whose own code runs, in the sandbox, whatever is recorded."""
    at: str | None = None
    """The name of a step or of a snapshot: from the first time that the body comes there, all steps are live."""
    begin_with: str = BEFORE
    """The name of the recorded snapshot that the run's database begins with."""
    cache: Cache = Cache.RECORDED
    follow: int = 0
    """How deep what is published is run, too; 0 is not at all."""
    follow_jobs: int = 50
    """How many published jobs are run at most."""
    ignore: tuple[str, ...] = ()
    """Names of fields, steps and states, also as patterns with `*`, whose differences are noise."""

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            if not isinstance(getattr(self, name), kind):
                raise VariationUnfit(f"{name} is {type(getattr(self, name)).__name__}, and has to be {kind.__name__}")
        if not isinstance(self.at, (str, type(None))):
            raise VariationUnfit("at is the name of a step or of a snapshot")
        both = {*self.stubs} & {*self.live}
        if both:
            raise VariationUnfit(
                f"step {', '.join(sorted(both))} can't be live and give what it is told: take one away"
            )
        unknown = {*self.options} - {*OPTIONS}
        if unknown:
            raise VariationUnfit(f"{', '.join(sorted(unknown))} is no option of a task; known are {', '.join(OPTIONS)}")
        if not (0 <= self.follow <= MOST_DEPTH and 0 <= self.follow_jobs <= MOST_JOBS):
            raise VariationUnfit(f"it may follow up to {MOST_DEPTH} deep, and up to {MOST_JOBS} jobs")

    def as_data(self) -> Data:
        """Return what is other, as JSON data."""
        return {
            one.name: _plain(getattr(self, one.name)) for one in fields(self) if getattr(self, one.name) != _of(one)
        }

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Variation:
        """Make one of what `as_data` returned.

        Raises:
            VariationUnfit: it is damaged, or of a newer version.
        """
        unknown = {*data} - {one.name for one in fields(cls)}
        if unknown:
            raise VariationUnfit(f"this version does not know {', '.join(sorted(map(str, unknown)))}; update")
        read: Data = {name: tuple(map(str, item)) if isinstance(item, list) else item for name, item in data.items()}
        try:
            return cls(**{**read, **({"cache": Cache(read["cache"])} if "cache" in read else {})})
        except ValueError as error:
            raise VariationUnfit(str(error)) from error


_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("arguments", "options", "stubs"), Mapping),
    **dict.fromkeys(("live", "ignore"), tuple),
    **dict.fromkeys(("follow", "follow_jobs"), int),
    "begin_with": str,
    "cache": Cache,
}

AS_RECORDED = Variation()


def _of(one: Any) -> Any:
    return getattr(AS_RECORDED, one.name)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Cache) else value
