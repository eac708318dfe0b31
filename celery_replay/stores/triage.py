"""The triage half of a store: what people decide about dead letters and parked jobs, each decision one atomic step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from .. import dead_letters
from ..clock import Micros, new_id
from ..dead_letters import Decision
from ..exceptions import TriageRefused
from ..lifecycle import PUBLISHING_US
from ..records import HistoryEntry, Letter, Row, evolve
from ..states import Reason, RowStatus, Verb
from .units import Unit, put_letter

T = TypeVar("T")


class Triage(ABC):
    """Decides, and writes down who did."""

    @abstractmethod
    def _atomically(self, step: Callable[[Unit], T]) -> T:
        """Run a step as one, again where others got in its way."""

    def decide(self, submission: str, decision: Decision) -> Letter:
        """Apply a decision to a dead letter, and return it as it is now.

        Raises:
            TriageRefused: there is none, its state does not allow that, or it changed since the decider looked.
        """
        return self._atomically(lambda unit: _decide(unit, submission, decision))

    def begin_replay(self, submission: str, decision: Decision, message: bytes, at: Micros | None = None) -> Row:
        """Decide to replay a dead letter, and put the replay's message where the dispatcher finds it.

        Both or neither: a replay that was decided is sent, whoever dies meanwhile.

        Args:
            decision: with the replay's submission.
            message: to be published, as `parking.publish` takes it.
            at: when the steward publishes it. By default the caller does, at once; the steward only if it dies.

        Raises:
            TriageRefused: as `decide` does.
        """

        def step(unit: Unit) -> Row:
            letter = _decide(unit, submission, decision)
            row = Row(
                submission=decision.replay,
                operation=letter.operation,
                generation=0,
                status=RowStatus.RELEASED,
                # Nobody waits behind it: what its key is busy with is OPEN's question.
                subject=decision.replay,
                reason=Reason.REPLAY,
                wake_at=at or unit.now + PUBLISHING_US,
                parked_at=unit.now,
                releases=0 if at else 1,
                message=message,
            )
            unit.put(row)
            return row

        return self._atomically(step)

    def stop_replay(self, submission: str, decision: Decision) -> Letter:
        """Call a replay off that nobody published yet.

        Raises:
            TriageRefused: it is on its way, or there is none.
        """

        def step(unit: Unit) -> Letter:
            letter = unit.letter(submission)
            row = unit.row(letter.replay) if letter is not None and letter.replay else None
            if letter is not None and (row is None or row.status is not RowStatus.RELEASED or row.releases):
                raise TriageRefused("its replay was sent already; revoke it, or wait for its end")
            after = _decide(unit, submission, decision)
            if row is not None:
                unit.drop(row)
            return after

        return self._atomically(step)

    def free(self, submission: str, actor: str, text: str) -> Row:
        """Release a parked job before its time; OPEN still decides, and may park it again.

        Raises:
            TriageRefused: it is not parked.
        """

        def step(unit: Unit) -> Row:
            row = unit.row(submission)
            if row is None or row.status not in (RowStatus.PARKED, RowStatus.RELEASED):
                raise TriageRefused("it is not parked" if row is None else f"it is on its way already: {row.status}")
            revision = row.revision + 1
            freed = evolve(row, status=RowStatus.RELEASED, revision=revision, releases=1, wake_at=unit.now)
            unit.put(freed)
            unit.put(
                HistoryEntry(
                    entry_id=new_id(), at=unit.now, verb=Verb.FREED, actor=actor, submission=submission, text=text
                )
            )
            return freed

        return self._atomically(step)

    def note_group(self, group_id: str, decision: Decision) -> None:
        """Write a note about a whole group."""

        def step(unit: Unit) -> None:
            entry = HistoryEntry(
                entry_id=new_id(),
                at=unit.now,
                verb=decision.verb,
                actor=decision.actor,
                group_id=group_id,
                operation_id=decision.operation_id,
                text=decision.text,
                details=decision.details,
            )
            unit.put(entry)

        self._atomically(step)


def _decide(unit: Unit, submission: str, decision: Decision) -> Letter:
    letter = unit.letter(submission)
    if letter is None:
        raise TriageRefused(f"job {submission} has no dead letter")
    after = dead_letters.decide(letter, decision)
    if after != letter:
        put_letter(unit, letter, after)
    unit.put(dead_letters.entry(letter, decision, unit.now))
    return after
