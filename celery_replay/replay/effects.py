"""What a replay would do to each side effect of a job, as far as that is recorded or declared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .. import dead_letters
from ..headers import BODY
from ..records import Job, Letter, StepRecord
from ..states import Effect, StepState, Word


class Certainty(Word):
    """What becomes of a side effect in a real replay."""

    DEDUPLICATED = "deduplicated"
    """It is recorded as done: it is not done again, and what it gave is used."""
    FENCED = "fenced"
    """Its target refuses a second one: the marker in the transaction's own database says whether it was done."""
    VERIFIED = "verified"
    """The task's own hook is asked first whether it was done."""
    WILL_REPEAT = "will_repeat"
    """It was done, and would be done again."""
    UNKNOWN = "unknown"
    """Nobody knows whether it was done: it may happen twice."""


@dataclass(frozen=True, kw_only=True)
class SideEffect:
    """One side effect of a job."""

    name: str
    """The step's, or `body` for what a body does outside of steps."""
    certainty: Certainty
    because: str

    @property
    def doubtful(self) -> bool:
        """May it happen twice?"""
        return self.certainty in (Certainty.WILL_REPEAT, Certainty.UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class Today:
    """What would be otherwise than it was when the job failed."""

    resumes: bool = False
    """Its task declares `on_incomplete="resume"`: a step whose output is lost is done again."""
    other_key: bool = False
    """Its mended payload has a key of its own: nothing that was recorded is found by it."""


def effects_of(letter: Letter, job: Job | None, steps: Sequence[StepRecord], today: Today) -> list[SideEffect]:
    """List the side effects of a dead letter's job that began, or may have.

    What it had not come to yet is not among them: nobody has a record of that.
    """
    task = dead_letters.declared(letter.message)
    protection = str(task.get("protection") or "")
    verified = bool(task.get("verify")) and protection == "step"
    effect = letter.effect if job is None else dead_letters.effect_of(job, letter.message, steps)
    found = [_of_step(step, today, verified=verified) for step in steps]
    return [*found, *_of_body(effect, protection, steps, verified=verified)]


def _of_step(step: StepRecord, today: Today, *, verified: bool) -> SideEffect:
    certainty, because = Certainty.DEDUPLICATED, "it is recorded as done, and what it gave is used"
    if today.other_key:
        certainty, because = Certainty.WILL_REPEAT, "it is recorded under the key of the payload before it was mended"
    elif step.state is StepState.CLAIMED:
        certainty, because = Certainty.UNKNOWN, "it was begun, and nobody knows its end; look at its target"
        if verified:
            certainty, because = Certainty.VERIFIED, _ASKED
    elif step.output is None:
        because = "it is recorded as done; what it gave is lost, so the replay fails there unless its verify= finds it"
        if today.resumes:
            certainty, because = Certainty.WILL_REPEAT, 'what it gave is lost, and the task declares "resume"'
    return SideEffect(name=step.name, certainty=certainty, because=because)


_ASKED = "the task's verify hook is asked first"
_BODY = {
    "": "the task declares no side effects, so nobody knows whether any happened",
    "step": "the body is one side effect, and nobody knows how far it came; look at its target",
    "steps": "it was cut off, and nobody knows within which step; look at their targets",
}


def _of_body(effect: Effect, protection: str, steps: Sequence[StepRecord], *, verified: bool) -> Iterator[SideEffect]:
    if effect is not Effect.UNKNOWN:
        return
    if protection == "atomic":
        because = "its transaction left a marker if it was committed, and a replay looks for that first"
        yield SideEffect(name=BODY, certainty=Certainty.FENCED, because=because)
    elif protection == "step" or not any(step.state is StepState.CLAIMED for step in steps):
        certainty, because = Certainty.UNKNOWN, _BODY.get(protection, _BODY[""])
        if verified:
            certainty, because = Certainty.VERIFIED, _ASKED
        yield SideEffect(name=BODY, certainty=certainty, because=because)
