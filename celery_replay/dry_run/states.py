"""The declared state in a run, beside what it was then: at its beginning, at its end, and at moments in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..exceptions import SnapshotUnreadable
from ..records import Event
from ..snapshots.capture import AFTER, BEFORE, REACHED
from ..snapshots.changes import as_rows
from ..snapshots.reading import Taken, taken
from ..snapshots.tree import Fetch, Tree
from .moments import ignored
from .recording import Recording
from .variation import Variation

Data = dict[str, Any]
Rows = Optional[list[Data]]  # noqa: UP045 - an alias is evaluated


def told(
    recording: Recording, variation: Variation, events: Sequence[Event], fetch: Fetch, *, reached: bool = False
) -> Data:
    """Say what a run did to the declared state, and in what that differs from what the original did.

    Args:
        events: of the run.
        fetch: gets the blobs of its snapshots.
        reached: it came to the place that the variation names.
    """
    own = taken(events)
    now = {one.when: Tree(one.reference, fetch) for one in own}
    begun, ended = now.get(BEFORE), now.get(AFTER)
    began, was = recording.state(variation.begin_with), recording.after
    moments = [*_moments(recording, own, fetch, variation.ignore)]
    at = None
    if variation.at is not None:
        at = {"name": variation.at, "reached": reached}
        at |= _at(variation.at, moments, now.get(REACHED)) if reached else {}
    return {
        "state": _changed(begun, ended),
        "state_then": _changed(recording.before, was),
        "state_differs": without_noise(_changed(was, ended), variation.ignore),
        "began_as_then": began is None or begun is None or begun.reference == began.reference,
        "moments": [
            {"when": one.when, "differs": one.differs} for one in moments if one.when not in (BEFORE, AFTER, REACHED)
        ],
        "at": at,
    }


@dataclass(frozen=True, kw_only=True)
class _Moment:
    """A snapshot of the run."""

    when: str
    tree: Tree
    then: Tree | None
    """The one that was taken at this place of the body then; None where there is none."""

    ignore: Sequence[str]

    @property
    def differs(self) -> Rows:
        return without_noise(_changed(self.then, self.tree), self.ignore)


def without_noise(rows: Rows, ignore: Sequence[str]) -> Rows:
    """Leave out rows whose field or state, or both as in `order.updated_at`, are noise."""
    if rows is None or not ignore:
        return rows
    named = ((row, (row["field"], row["state"], f"{row['state']}.{row['field']}")) for row in rows)
    return [row for row, names in named if not any(ignored(name, ignore) for name in names)]


def _moments(recording: Recording, own: Sequence[Taken], fetch: Fetch, ignore: Sequence[str]) -> Iterator[_Moment]:
    """Put each snapshot beside its like: the body took both, at the same place, the second of a name as the second."""
    then = taken(recording.events) or list(recording.snapshots.values())
    seen: Counter[str] = Counter()
    for one in own:
        alike = [other for other in then if other.when == one.when][seen[one.when] :]
        seen[one.when] += 1
        tree = recording.tree(alike[0]) if alike else None
        yield _Moment(when=one.when, tree=Tree(one.reference, fetch), then=tree, ignore=ignore)


def _at(name: str, moments: Sequence[_Moment], reached: Tree | None) -> Data:
    """Tell of the place where it went over to what is live.

    It is compared at the last snapshot up to there that both have: what the original wrote after that and before the
    step, nobody knows. What the run wrote since is told beside it.
    """
    place = next((place for place, one in enumerate(moments) if one.when in (name, REACHED)), -1)
    before = moments[: place + 1]
    last = next((one for one in reversed(before) if one.then is not None), None)
    return {
        "compared": last.when if last is not None else None,
        "differs": last.differs if last is not None else None,
        "since": _changed(last.tree, reached) if last is not None else None,
    }


def _changed(before: Tree | None, after: Tree | None) -> Rows:
    if before is None or after is None:
        return None
    try:
        return list(as_rows(before, after))
    except SnapshotUnreadable:  # a part of it is gone
        return None
