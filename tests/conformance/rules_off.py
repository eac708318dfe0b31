"""Variants of the rules, each with one of them taken off, to prove that its test can fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from celery_replay import admission, dead_letters, leases, lifecycle, losses
from celery_replay import facts as facts_module
from celery_replay.admission import Admission, Case
from celery_replay.clock import Micros
from celery_replay.facts import Change, Facts, Place
from celery_replay.leases import Obstacle
from celery_replay.losses import News
from celery_replay.records import Job, Row
from celery_replay.states import AckMode, Outcome, Reason, RowStatus, Verdict
from tests.conformance.world import World

Line = Callable[[Case], Admission | None]
Switch = Callable[[pytest.MonkeyPatch, World], None]
SWITCHES: dict[str, Switch] = {}
HABITS = ("lineage", "lost_ignores", "verify_fences")
"""Rules that are kept by the process around the store."""


def switch_off(rule: str, patch: pytest.MonkeyPatch, world: World) -> None:
    """Take one rule off."""
    if rule in HABITS:
        world.setup = replace(world.setup, bad_habits=frozenset({rule}))
    if rule in SWITCHES:
        SWITCHES[rule](patch, world)


def _off(switch: Switch) -> Switch:
    SWITCHES[switch.__name__] = switch
    return switch


def _instead(patch: pytest.MonkeyPatch, name: str, variant: Line) -> None:
    original = getattr(admission, name)
    for table in ("_BEFORE_ADMITTANCE", "_LINES"):
        lines = getattr(admission, table)
        patch.setattr(admission, table, tuple(variant if line is original else line for line in lines))


@_off
def cas(patch: pytest.MonkeyPatch, world: World) -> None:
    patch.setattr(lifecycle, "owns", lambda job, nonce, claim, *, closing=False: job is not None)


@_off
def release(patch: pytest.MonkeyPatch, world: World) -> None:
    def any_row(case: Case) -> Admission | None:
        row = case.facts.row
        carried = row is not None and row.generation >= case.generation
        return admission._ignore(case, Reason.ALREADY_PARKED) if carried else None

    _instead(patch, "_already_parked", any_row)
    row_stays(patch, world)


@_off
def row_stays(patch: pytest.MonkeyPatch, world: World) -> None:
    def gone_when_sent(facts: Facts, published: Row, resend_us: Micros, now: Micros) -> Facts:
        row = facts.row
        ours = row is not None and row.status is RowStatus.RELEASED and row.revision == published.revision
        return replace(facts, row=None) if ours else facts

    take_row = admission._take_row

    def gone_when_admitted(case: Case, row: Row) -> Facts:
        facts = take_row(case, row)
        taken = facts.row is not None and facts.row.status is RowStatus.TAKEN
        return replace(facts, row=None) if taken else facts

    patch.setattr(lifecycle, "sent", gone_when_sent)
    patch.setattr(admission, "_take_row", gone_when_admitted)


@_off
def resend(patch: pytest.MonkeyPatch, world: World) -> None:
    due = lifecycle.due

    def never_again(facts: Facts, now: Micros) -> Facts:
        return facts if facts.row is not None and facts.row.status is RowStatus.SENT else due(facts, now)

    patch.setattr(lifecycle, "due", never_again)


@_off
def rowgen(patch: pytest.MonkeyPatch, world: World) -> None:
    def any_round(facts: Facts, published: Row, resend_us: Micros, now: Micros) -> Facts:
        row = facts.row
        return (
            facts if row is None else replace(facts, row=replace(row, status=RowStatus.SENT, wake_at=now + resend_us))
        )

    patch.setattr(lifecycle, "sent", any_round)


@_off
def free_on_lapse(patch: pytest.MonkeyPatch, world: World) -> None:
    blocked_until = facts_module.blocked_until

    def until_closed(facts: Facts, now: Micros) -> Micros | None:
        still_open = facts.owner is not None and facts.owner.status is Outcome.OPEN
        return now + 1 if still_open else blocked_until(facts, now)

    patch.setattr(lifecycle, "blocked_until", until_closed)


@_off
def lineage(patch: pytest.MonkeyPatch, world: World) -> None:
    _instead(patch, "_superseded", lambda case: None)


@_off
def flag_only(patch: pytest.MonkeyPatch, world: World) -> None:
    original = admission._ended_and_announced

    def success_is_proof(case: Case) -> Admission | None:
        job = case.job
        if job and job.status.ended and world.backend.results.get(job.submission) == "SUCCESS":
            return admission._ignore(replace(case, facts=replace(case.facts, row=None)), Reason.CANVAS_ADVANCED)
        return original(case)

    _instead(patch, "_ended_and_announced", success_is_proof)


@_off
def canvas_hold(patch: pytest.MonkeyPatch, world: World) -> None:
    _instead(patch, "_canvas_in_progress", lambda case: None)


@_off
def fail_canvas(patch: pytest.MonkeyPatch, world: World) -> None:
    original = admission._ended_and_announced

    def a_failure_is_over(case: Case) -> Admission | None:
        if case.job is not None and case.job.status.failing:
            return admission._ignore(replace(case, facts=replace(case.facts, row=None)), Reason.CANVAS_ADVANCED)
        return original(case)

    _instead(patch, "_ended_and_announced", a_failure_is_over)


@_off
def dedup_record(patch: pytest.MonkeyPatch, world: World) -> None:
    original = admission._first_result

    def unrecorded(case: Case) -> Admission | None:
        answer = original(case)
        given = answer is not None and answer.verdict is Verdict.FIRST_RESULT
        return replace(answer, facts=case.facts) if answer and given else answer

    _instead(patch, "_first_result", unrecorded)


@_off
def lost_parks(patch: pytest.MonkeyPatch, world: World) -> None:
    patch.setattr(lifecycle, "step_back", lambda facts, delivery, claim, now: facts)


@_off
def unsettled_blocks(patch: pytest.MonkeyPatch, world: World) -> None:
    lose = losses.lose

    def forgetful(facts: Facts, now: Micros, reason: Reason, news: News | None = None) -> Facts:
        lost = lose(facts, now, reason, news)
        return replace(lost, job=replace(_job(lost), unsettled=False))

    patch.setattr(losses, "lose", forgetful)


@_off
def reaper_deadline(patch: pytest.MonkeyPatch, world: World) -> None:
    reap = losses.reap

    def early_only(facts: Facts, now: Micros) -> Change | None:
        return reap(facts, now) if _job(facts).ack is AckMode.EARLY else None

    patch.setattr(losses, "reap", early_only)


@_off
def letter_once(patch: pytest.MonkeyPatch, world: World) -> None:
    hear = losses.hear

    def each_announcement(facts: Facts, news: News, now: Micros) -> Change | None:
        change = hear(facts, news, now)
        if change is None and facts.job is not None:
            return Change(facts=dead_letters.file(facts, losses._letter(facts.job, now, news.reason, news)))
        return change

    patch.setattr(losses, "hear", each_announcement)
    # What was done is done: of its own that would keep such a letter resolved.
    patch.setattr(dead_letters, "_WELL", ())


@_off
def late_close(patch: pytest.MonkeyPatch, world: World) -> None:
    owns = lifecycle.owns

    def while_open(job: Job | None, nonce: str, claim: str | None, *, closing: bool = False) -> bool:
        return owns(job, nonce, claim, closing=False)

    patch.setattr(lifecycle, "owns", while_open)


@_off
def in_line(patch: pytest.MonkeyPatch, world: World) -> None:
    obstacle = leases.obstacle

    def who_has_it(places: Sequence[Place], submission: str, since: Micros, now: Micros) -> Obstacle | None:
        return obstacle([replace(place, line=()) for place in places], submission, since, now)

    patch.setattr(leases, "obstacle", who_has_it)


@_off
def let_go(patch: pytest.MonkeyPatch, world: World) -> None:
    patch.setattr(leases, "let_go", lambda places, nonce, end, now: tuple(places))


@_off
def lease_lapses(patch: pytest.MonkeyPatch, world: World) -> None:
    patch.setattr(leases, "taken", lambda lease, now: bool(lease.nonce))


@_off
def fences_rise(patch: pytest.MonkeyPatch, world: World) -> None:
    grant = leases.grant

    def by_the_clock(place: Place, job: Job, keep_us: Micros, now: Micros, floor: Micros = 0) -> Place:
        given = grant(place, job, keep_us, now, floor)
        return replace(given, lease=replace(given.lease, fence=now))

    patch.setattr(leases, "grant", by_the_clock)


@_off
def all_or_none(patch: pytest.MonkeyPatch, world: World) -> None:
    original = admission._contended

    def what_is_free(case: Case) -> Admission | None:
        answer = original(case)
        if answer is None:
            return None
        job = admission._new_job(case, lease_until=case.now + case.ask.lease_us)
        places = tuple(
            p if leases.taken(p.lease, case.now) else leases.grant(p, job, case.ask.keep_us, case.now)
            for p in answer.facts.places
        )
        return replace(answer, facts=replace(answer.facts, places=places))

    _instead(patch, "_contended", what_is_free)


@_off
def disowned(patch: pytest.MonkeyPatch, world: World) -> None:
    patch.setattr(leases, "_disowned", lambda owner: owner)


@_off
def owns_its_leases(patch: pytest.MonkeyPatch, world: World) -> None:
    patch.setattr(leases, "own", lambda places, nonce: True)
    patch.setattr(leases, "_disowned", lambda owner: owner)


def _job(facts: Facts) -> Job:
    assert facts.job is not None
    return facts.job
