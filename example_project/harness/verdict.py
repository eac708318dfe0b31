"""From what was seen to the table, and to the exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .rounds import Outcome
from .witness import Sighting


@dataclass(frozen=True, kw_only=True)
class Harm:
    """One way in which customers or the shop were harmed, and how often."""

    label: str
    kind: str
    """"lost" or "twice"."""
    count: int


def harms(seen: Sighting) -> list[Harm]:
    """Count everything that was done twice or never."""
    accounts = seen.accounts
    return [
        Harm(label="orders charged twice", kind="twice", count=repeated(seen.charges)),
        Harm(label="labels bought twice", kind="twice", count=repeated(seen.labels)),
        Harm(
            label="customers with too many points",
            kind="twice",
            count=sum(account.points > account.due for account in accounts),
        ),
        Harm(label="day reports too many", kind="twice", count=max(0, len(seen.reports) - 1)),
        Harm(label="orders never charged", kind="lost", count=seen.orders - len(seen.charges)),
        Harm(label="orders without a label", kind="lost", count=seen.orders - len(seen.labels)),
        Harm(label="orders never shipped", kind="lost", count=seen.orders - seen.shipped),
        Harm(
            label="customers with too few points",
            kind="lost",
            count=sum(account.points < account.due for account in accounts),
        ),
        Harm(label="day reports missing", kind="lost", count=int(not seen.reports)),
    ]


def repeated(counts: dict[str, int]) -> int:
    return sum(count > 1 for count in counts.values())


def rows(outcomes: list[Outcome]) -> list[tuple[str, list[str]]]:
    """Return the table: one line for each kind of harm, one cell for each column."""
    seen = [outcome.seen for outcome in outcomes]
    counted = [harms(sighting) for sighting in seen]
    lines = [
        (per_column[0].label, [mark(harm.count) for harm in per_column]) for per_column in zip(*counted, strict=True)
    ]
    return [
        ("orders", [str(sighting.orders) for sighting in seen]),
        ("double clicks", [str(len(outcome.plan.double_clicks)) for outcome in outcomes]),
        ("messages delivered again", [str(len(outcome.plan.redeliveries)) for outcome in outcomes]),
        ("workers killed in mid-job", [str(outcome.kills) for outcome in outcomes]),
        *lines,
        ("euros charged again", [mark(sighting.overcharged_cents // 100) for sighting in seen]),
        ("seconds", [f"{outcome.seconds:.0f}" for outcome in outcomes]),
    ]


def mark(count: int) -> str:
    return f"{count} !" if count else "0"


def conclusion(outcome: Outcome) -> str:
    """Put a column into one sentence."""
    found = harms(outcome.seen)
    twice, lost = (sum(harm.count for harm in found if harm.kind == kind) for kind in ("twice", "lost"))
    return f"{outcome.column.name}: {twice} done twice, {lost} never done, with {outcome.kills} workers killed"


def complaints(outcome: Outcome) -> list[str]:
    """Say what is wrong with a column: harm done by ours, or nothing shown by the others."""
    found: Counter[str] = Counter()
    for harm in harms(outcome.seen):
        found[harm.kind] += harm.count
    name, proves = outcome.column.name, outcome.column.proves
    said = []
    if outcome.kills < len(outcome.plan.kills):
        said.append(f"{name}: only {outcome.kills} kills hit a job, so this proves too little")
    if proves == "none":
        said += [f"{name}: {count} {kind}" for kind, count in found.items() if count]
    elif not found[proves]:
        said.append(f"{name}: nothing {proves}: the faults did not bite, so this proves nothing")
    return said
