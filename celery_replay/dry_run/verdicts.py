"""How many dry runs came out how: in one sentence for each group of letters, and for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..dead_letters import Decision
from ..exceptions import ReplayError
from ..states import Verb
from ..stores.base import Store
from .comparison import Ends
from .engine import DryRun

REFUSED = "refused"
"""Stands for how one ended that could not be run."""
NOT_RUN = "could not be run"
_SUMMED = {
    Ends.WELL: "would succeed",
    Ends.SAME: "would fail in the same way",
    Ends.OTHERWISE: "would fail in another way",
    Ends.RETRIES: "would be retried",
    Ends.BLOCKED: "tried what a dry run may not",
    Ends.DIED: "did not come to an end",
}


def summed(ran: DryRun | ReplayError) -> str:
    """Put alike what ends alike: those that diverge, by where they do."""
    if isinstance(ran, ReplayError):
        return NOT_RUN
    ends = ran.comparison.ends
    if ends is Ends.DIVERGES and ran.found:
        return f"would diverge at step {ran.found['missing'][0]}"
    return _SUMMED.get(ends, ran.comparison.said)


class Verdicts:
    """Counts how dry runs ended, by the groups of their letters."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, group_id: str, ran: DryRun | ReplayError) -> None:
        """Count one."""
        self._counts[group_id, summed(ran)] += 1

    def groups(self) -> Iterator[tuple[str, str]]:
        """Yield each group with its sentence."""
        for group_id in dict.fromkeys(group_id for group_id, _ in self._counts):
            yield group_id, sentence({what: n for (of, what), n in self._counts.items() if of == group_id})

    def whole(self) -> str:
        """Return the sentence of all."""
        found: Counter[str] = Counter()
        for (_, what), count in self._counts.items():
            found[what] += count
        return sentence(found)

    def note(self, store: Store, actor: str) -> None:
        """Keep each sentence with its group."""
        for group_id, told in self.groups():
            if group_id:
                store.note_group(group_id, Decision(verb=Verb.NOTED, actor=actor, text=f"dry run: {told}"))


def sentence(counts: dict[str, int]) -> str:
    """Say how many came out how."""
    return ", ".join(f"{count} {what}" for what, count in Counter(counts).most_common())
