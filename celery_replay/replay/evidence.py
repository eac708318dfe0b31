"""What is known of a dead letter, for whoever decides: may it be replayed, must it be mended, is anything half done?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import dead_letters
from ..records import Job, Letter, StepRecord
from ..states import Category, Effect, Outcome, Reason, StepState
from ..stores.base import Store

_MEND = {
    Reason.KEY_CONFLICT: "its key was used with another payload: mend the payload, or give it another key",
    Reason.KEY_FAILED: "no: the job that has its key failed; triage that one",
    Reason.POSTCONDITION: "no sign of it: the body took it; look at what came out, and at the code",
}


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Three answers, each with its reason."""

    effect: Effect
    safe: bool
    """A replay repeats no side effect that is known, or that could be known."""
    safe_because: str
    mend: str
    """Whether the payload must be mended."""
    half_done: Sequence[str]
    """What was done of it, and what may have been."""
    job: Job | None = None
    """Whose steps these are: the letter's, or its last replay's."""
    steps: Sequence[StepRecord] = ()


def evidence_of(store: Store, letter: Letter) -> Evidence:
    """Collect what the store knows now; more than it did when the letter was filed."""
    return gather(store, [letter])[0]


def gather(store: Store, letters: Sequence[Letter]) -> list[Evidence]:
    """Collect the evidence of many letters at once."""
    jobs = store.jobs_named(name for letter in letters for name in (letter.submission, letter.replay) if name)
    about = [jobs.get(letter.replay) or jobs.get(letter.submission) for letter in letters]
    steps = store.steps_of({job.identity for job in about if job is not None})
    return [
        weigh(letter, job, steps[job.identity] if job is not None else ())
        for letter, job in zip(letters, about, strict=True)
    ]


def weigh(letter: Letter, job: Job | None, steps: Sequence[StepRecord]) -> Evidence:
    """Draw the conclusions."""
    effect = letter.effect if job is None else dead_letters.effect_of(job, letter.message, steps)
    task = dead_letters.declared(letter.message)
    safe, because = _safety(effect, task)
    return Evidence(
        effect=effect,
        safe=safe,
        safe_because=because,
        mend=_mending(letter),
        half_done=_half_done(job, steps),
        job=job,
        steps=steps,
    )


def _safety(effect: Effect, task: dict[str, object]) -> tuple[bool, str]:
    protection = task.get("protection")
    if effect is not Effect.UNKNOWN:
        return True, _KNOWN[effect]
    if protection == "atomic":
        return True, "its transaction left a marker if it was committed, and a replay looks for that first"
    if task.get("verify"):
        return True, "a replay asks the task's verify hook first"
    return False, _UNKNOWN.get(
        str(protection), "the task declares no side effects, so nobody knows whether any happened"
    )


_KNOWN = {
    Effect.ABSENT: "no side effect happened",
    Effect.PROVEN: "steps that are recorded as done are not done again",
}
_UNKNOWN = {
    "step": "the body is one side effect, and nobody knows how far it came; look at its target",
    "steps": "it was cut off within a side effect, and nobody knows whether that happened; look at its target",
}


def _mending(letter: Letter) -> str:
    if letter.reason in _MEND:
        return _MEND[letter.reason]
    if letter.category is Category.VALIDATION:
        return "probably: its payload did not pass"
    return "no sign of it"


_TO_ITS_END = "the body came to its end, and what it did is not as it has to be"


def _half_done(job: Job | None, steps: Sequence[StepRecord]) -> list[str]:
    told = [f"step {s.name} is done" for s in steps if s.state is StepState.SETTLED]
    told += [f"step {s.name} was begun; nobody knows its end" for s in steps if s.state is StepState.CLAIMED]
    if job is not None and job.unsettled and not steps:
        ended = job.status is Outcome.FAILED_VALIDATION
        told.append(_TO_ITS_END if ended else "the body was cut off; nobody knows what it had done")
    return told
