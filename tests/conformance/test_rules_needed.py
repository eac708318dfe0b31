"""Every rule of the life cycle is needed: a scenario that it saves, and what breaks there once it is taken off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from celery_replay.states import AckMode, LetterState, Outcome
from tests.conformance import rules_off, setup
from tests.conformance.rest import check_rest, settle
from tests.conformance.script import crash, dispatch, lapse, marks, redelivery, runs, takes
from tests.conformance.setup import Setup
from tests.conformance.world import MakeStore, World

Script = Callable[[World], None]


@dataclass(frozen=True)
class Scenario:
    """A rule, the property that breaks without it, and how."""

    rule: str
    breaks: str
    setup: Setup
    script: Script


SCENARIOS: list[Scenario] = []


def needed(rule: str, *, breaks: str, setup: Setup | None = None) -> Callable[[Script], Script]:
    def keep(script: Script) -> Script:
        SCENARIOS.append(Scenario(rule, breaks, setup or Setup(), script))
        return script

    return keep


@needed("cas", breaks="P4")
def a_zombie_claims_its_step_after_another_took_over(world: World) -> None:
    zombie, successor = world.workers
    takes(zombie)
    runs(zombie, to="claim")
    redelivery(world)
    takes(successor)
    lapse(world, zombie)
    runs(successor, to="claim")
    runs(zombie)


@needed("release", breaks="P2", setup=Setup(submissions=2))
def a_parked_retry_is_published_and_meets_its_own_row(world: World) -> None:
    owner, other = world.workers
    takes(owner, ending="retry")
    runs(owner, to="retried")
    takes(other, "job-1")
    runs(other)
    takes(other, generation=1)
    runs(other)
    runs(owner)
    dispatch(world)
    takes(owner, generation=1)
    runs(owner)
    marks(world)


@needed("row_stays", breaks="P3")
def an_acknowledgement_by_tag_takes_the_message_of_a_holder_that_then_dies(world: World) -> None:
    first, second = world.workers
    takes(first)
    runs(first, to="link")
    crash(first)
    redelivery(world)
    takes(second)
    second.step()
    redelivery(world)
    takes(first)
    runs(second)
    lapse(world)
    world.release_due()
    world.drop_rows()
    runs(first, to="link")
    crash(first)


@needed("resend", breaks="P6", setup=Setup(submissions=2, ack=AckMode.EARLY))
def a_released_job_is_acknowledged_early_and_dies_before_its_open(world: World) -> None:
    owner, waiter = world.workers
    takes(owner)
    runs(owner, to="claim")
    takes(waiter, "job-1")
    runs(waiter)
    runs(owner)
    dispatch(world)
    takes(waiter, "job-1")
    runs(waiter, to="open")
    crash(waiter)
    marks(world)


@needed("rowgen", breaks="P6", setup=Setup(submissions=2))
def a_late_mark_comes_after_the_job_was_parked_again(world: World) -> None:
    owner, waiter = world.workers
    takes(owner, ending="fail")
    runs(owner, to="claim")
    takes(waiter, "job-1")
    runs(waiter)
    lapse(world, owner)
    dispatch(world)
    lapse(world, after=0)
    takes(waiter, "job-1")
    runs(waiter)
    marks(world)


@needed("free_on_lapse", breaks="P6", setup=Setup(ack=AckMode.LATE_ACKS_LOSS))
def a_job_is_parked_behind_its_own_dead_attempt(world: World) -> None:
    first, second = world.workers
    takes(first)
    runs(first, to="claim")
    crash(first)
    redelivery(world)
    takes(second)
    runs(second)
    lapse(world)


@needed("lineage", breaks="P3")
def a_run_that_was_taken_over_by_its_own_retry_comes_again(world: World) -> None:
    first, second = world.workers
    takes(first, ending="retry")
    runs(first, to="retried")
    lapse(world, first)
    takes(second, generation=1)
    runs(second, to="store")
    crash(first)
    crash(second)
    redelivery(world)
    lapse(world)
    takes(first)
    runs(first)


@needed("flag_only", breaks="P3")
def a_worker_dies_between_storing_its_result_and_counting_its_chord_part(world: World) -> None:
    first, _ = world.workers
    takes(first)
    runs(first, to="count")
    crash(first)


@needed("canvas_hold", breaks="P3", setup=Setup(counts_by_id=False))
def a_redelivery_comes_while_the_owner_sends_its_canvas_on(world: World) -> None:
    owner, other = world.workers
    takes(owner)
    runs(owner, to="link")
    redelivery(world)
    takes(other)
    runs(other)
    runs(owner)


@needed("fail_canvas", breaks="P3")
def a_worker_dies_before_it_announces_its_dead_letter(world: World) -> None:
    first, _ = world.workers
    takes(first, ending="fail")
    runs(first, to="fstore")
    crash(first)


@needed("dedup_record", breaks="P3", setup=Setup(submissions=2, counts_by_id=False))
def a_deduplicated_job_is_redelivered_after_its_canvas(world: World) -> None:
    first, second = world.workers
    takes(first)
    runs(first)
    takes(second, "job-1")
    runs(second, to="ack")
    world.flush(second)
    redelivery(world, "job-1")
    runs(second)


@needed("lost_parks", breaks="P3")
def a_zombie_acknowledges_the_message_that_its_dying_successor_runs(world: World) -> None:
    zombie, successor = world.workers
    takes(zombie)
    runs(zombie, to="claim")
    redelivery(world)
    takes(successor)
    lapse(world, zombie)
    runs(successor, to="claim")
    runs(zombie)
    runs(successor, to="link")
    crash(successor)


@needed("lost_ignores", breaks="P3")
def a_zombie_raises_an_error_for_a_job_that_succeeds(world: World) -> None:
    zombie, successor = world.workers
    takes(zombie)
    runs(zombie, to="claim")
    redelivery(world)
    takes(successor)
    lapse(world, zombie)
    runs(successor, to="link")
    runs(zombie)
    world.flush(zombie)
    crash(successor)


@needed("verify_fences", breaks="P1")
def a_zombie_acts_after_its_successor_has_looked(world: World) -> None:
    zombie, successor = world.workers
    takes(zombie)
    runs(zombie, to="apply")
    redelivery(world)
    takes(successor)
    lapse(world, zombie)
    runs(successor, to="apply")
    zombie.step()


@needed("unsettled_blocks", breaks="P1", setup=Setup(submissions=2, ack=AckMode.EARLY, whole=True))
def another_job_of_the_key_comes_after_an_effect_that_nobody_settled(world: World) -> None:
    first, second = world.workers
    takes(first)
    runs(first, to="end")
    crash(first)
    lapse(world)
    world.store.reap()
    takes(second, "job-1")
    runs(second)


@needed("reaper_deadline", breaks="P2", setup=Setup(ack=AckMode.LATE_ACKS_LOSS))
def the_news_of_an_acknowledged_loss_is_lost(world: World) -> None:
    first, _ = world.workers
    takes(first)
    runs(first, to="claim")
    world.kill(first)
    world.news.clear()


@needed("letter_once", breaks="P5", setup=Setup(ack=AckMode.LATE_ACKS_LOSS))
def the_parent_announces_a_death_twice(world: World) -> None:
    first, second = world.workers
    takes(first)
    runs(first, to="claim")
    redelivery(world)
    takes(second)
    world.kill(first)
    news, again = world.news
    world.hear(news)
    runs(second)
    world.hear(again)


ONE = Setup(submissions=3, keyed=False, resources=(("r",),), workers=3)


@needed("in_line", breaks="L3", setup=ONE)
def a_newcomer_comes_while_who_was_called_is_on_his_way(world: World) -> None:
    holder, waiter, newcomer = world.workers
    takes(holder)
    runs(holder, to="claim")
    takes(waiter, "job-1")
    runs(waiter)
    runs(holder)
    dispatch(world)
    marks(world)
    world.advance(1)
    takes(newcomer, "job-2")
    newcomer.step()


@needed("let_go", breaks="L6", setup=ONE)
def jobs_that_ended_leave_their_resource(world: World) -> None:
    holder, waiter, _ = world.workers
    takes(holder)
    runs(holder, to="claim")
    takes(waiter, "job-1")
    runs(waiter)
    runs(holder)


@needed("lease_lapses", breaks="P6", setup=replace(ONE, ack=AckMode.EARLY))
def the_holder_of_a_resource_dies_and_does_not_come_back(world: World) -> None:
    holder, waiter, _ = world.workers
    takes(holder)
    runs(holder, to="claim")
    takes(waiter, "job-1")
    runs(waiter)
    crash(holder)


@needed("fences_rise", breaks="L2", setup=ONE)
def a_resource_is_taken_twice_before_the_clock_moves(world: World) -> None:
    holder, second, _ = world.workers
    takes(holder)
    runs(holder, to="claim")
    takes(second, "job-1")
    runs(second)
    runs(holder)
    dispatch(world)
    takes(second, "job-1")
    second.step()


@needed("all_or_none", breaks="L5", setup=replace(ONE, resources=(("s",), ("r", "s"))))
def one_of_two_resources_is_leased(world: World) -> None:
    holder, both, _ = world.workers
    takes(holder)
    runs(holder, to="claim")
    takes(both, "job-1")
    both.step()


@needed("disowned", breaks="L4", setup=ONE)
def a_zombie_goes_on_after_another_job_took_its_resource(world: World) -> None:
    zombie, successor, _ = world.workers
    takes(zombie)
    runs(zombie, to="claim")
    lapse(world, zombie)
    takes(successor, "job-1")
    successor.step()
    zombie.step()


@needed("owns_its_leases", breaks="L4", setup=ONE)
def a_zombie_closes_after_somebody_gave_its_resource_away(world: World) -> None:
    zombie, successor, _ = world.workers
    takes(zombie)
    runs(zombie, to="end")
    lapse(world, zombie)
    world.store.free_lease("r", "operator", "it is dead")
    takes(successor, "job-1")
    successor.step()
    zombie.step()


BY_NAME = {f"{s.rule}-{s.script.__name__}": s for s in SCENARIOS}


@pytest.mark.parametrize("name", BY_NAME)
def test_the_rules_save(name: str, make_store: MakeStore) -> None:
    scenario = BY_NAME[name]
    world = World(scenario.setup, make_store)
    scenario.script(world)
    check_rest(world)


@pytest.mark.parametrize("name", BY_NAME)
def test_without_the_rule_it_breaks(name: str, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = BY_NAME[name]
    world = World(scenario.setup, make_store)
    rules_off.switch_off(scenario.rule, monkeypatch, world)
    scenario.script(world)
    with pytest.raises(AssertionError, match=scenario.breaks):
        check_rest(world)


@pytest.mark.parametrize(("rule", "attempts"), [("late_close", 2), (None, 1)])
def test_the_owners_close_after_the_reaper_saves_a_run(
    rule: str | None, attempts: int, make_store: MakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(Setup(), make_store)
    if rule:
        rules_off.switch_off(rule, monkeypatch, world)
    owner, _ = world.workers
    takes(owner)
    runs(owner, to="end")
    lapse(world, owner, after=setup.LEASE + setup.REDELIVERY + 1)
    assert world.store.reap() == 1
    assert world.outcome("job-0") is Outcome.LOST
    runs(owner)
    settle(world)
    job, letter = world.job("job-0"), world.store.letter("job-0")
    assert job is not None
    assert (job.status, job.attempts) == (Outcome.SUCCEEDED, attempts)
    assert letter is not None
    assert letter.state is LetterState.RESOLVED
