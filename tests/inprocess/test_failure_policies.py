"""Failed bodies tried again by their task's policy: one count, one policy, and nothing lost on the way."""

from __future__ import annotations

import pytest
from celery.exceptions import Ignore, Reject
from celery.exceptions import Retry as CeleryRetry

from celery_replay import OwnershipLost, Permanent, RecordedFailure, Throttled, Transient
from celery_replay.headers import HEADER
from celery_replay.retries import DeadLetter, FailurePolicy, Retry, rule

SOON = Retry(first_s=0.01, cap_s=0.02)
QUICK = FailurePolicy(transient=SOON, throttled=SOON, dependency=SOON, concurrency=SOON)


def failing(lab, error, times=99, **options):
    @lab.task(bind=True, **{"failures": QUICK, **options})
    def ship(self, order_id=5):
        lab.log.append(self.request.retries)
        if self.request.retries < times:
            raise error
        return "shipped"

    return ship


def test_a_transient_failure_is_tried_again_until_it_succeeds(any_lab):
    lab = any_lab
    result = failing(lab, ConnectionResetError("reset"), times=2).delay()

    assert lab.get(result) == "shipped"
    assert lab.log == [0, 1, 2]
    assert lab.settled(result.id).attempts == 3
    assert lab.letters() == []


def test_a_failure_that_would_come_again_is_a_dead_letter_at_once(lab):
    result = failing(lab, Permanent("not paid")).delay()

    assert isinstance(lab.error(result), Permanent)
    lab.settled(result.id)
    assert lab.log == [0]
    assert lab.letter(result.id).category == "permanent"


def test_after_as_many_attempts_as_it_may_have_it_is_a_dead_letter(lab):
    options = {"failures": FailurePolicy(transient=Retry(max_attempts=3, first_s=0.01, cap_s=0.02))}
    result = failing(lab, TimeoutError("slow"), **options).delay()

    assert isinstance(lab.error(result), TimeoutError)
    lab.settled(result.id)
    assert lab.log == [0, 1, 2]
    letter = lab.letter(result.id)
    assert (letter.category, letter.attempts) == ("transient", 3)


def test_a_policy_without_a_number_goes_by_the_tasks_max_retries(lab):
    result = failing(lab, TimeoutError("slow"), max_retries=1).delay()

    lab.error(result)
    lab.settled(result.id)
    assert lab.log == [0, 1]


def test_the_trace_tells_why_a_job_was_tried_again_and_why_no_more(lab):
    result = failing(lab, ConnectionRefusedError("refused"), max_retries=1).delay()
    lab.error(result)
    lab.settled(result.id)

    told = {event.name: event.attributes for event in lab.events(result.id) if event.name.startswith("retry_")}

    assert told["retry_decided"]["category"] == "dependency"
    assert told["retry_decided"]["rule"] == "network: away"
    assert told["retry_decided"]["because"] == "is a ConnectionRefusedError"
    assert told["retry_decided"]["decision"] == "attempt 1 of 2"
    assert told["retry_decided"]["delay_s"] <= 0.02
    assert told["retry_refused"]["decision"] == "attempt 2 of 2"


def test_the_delay_is_the_one_that_the_server_asks_for(lab):
    result = failing(lab, Throttled("slower", retry_after_s=0.5), times=1).delay()

    assert lab.get(result) == "shipped"
    (decided,) = [event for event in lab.events(result.id) if event.name == "retry_decided"]
    assert decided.attributes["delay_s"] == 0.5


def test_autoretry_and_a_policy_do_not_multiply(lab):
    result = failing(
        lab, TimeoutError(), autoretry_for=(Exception,), max_retries=4, retry_kwargs={"countdown": 0}
    ).delay()

    lab.error(result)
    lab.settled(result.id)
    assert lab.log == [0, 1, 2, 3, 4]


def test_an_explicit_retry_and_a_policy_do_not_multiply(lab):
    @lab.task(bind=True, failures=QUICK, max_retries=3)
    def ship(self):
        lab.log.append(self.request.retries)
        raise self.retry(exc=TimeoutError("slow"))

    result = ship.delay()

    assert isinstance(lab.error(result), TimeoutError)
    lab.settled(result.id)
    assert lab.log == [0, 1, 2, 3]


def test_autoretry_and_explicit_retries_come_after_the_policys_delay(lab):
    @lab.task(bind=True, failures=QUICK, max_retries=1)
    def asks(self):
        if not self.request.retries:
            raise self.retry(exc=TimeoutError("slow"))
        return "done"

    by_itself = failing(lab, TimeoutError("slow"), times=1, autoretry_for=(TimeoutError,))

    # Celery's own delay is three minutes.
    assert lab.get(asks.delay()) == "done"
    assert lab.get(by_itself.delay()) == "shipped"


def test_an_explicit_countdown_is_kept(lab):
    seen = []

    @lab.task(bind=True, failures=QUICK)
    def ship(self):
        try:
            raise self.retry(exc=TimeoutError("slow"), countdown=77, throw=False)
        except CeleryRetry as retry:
            seen.append(retry.when)
            raise Ignore from None

    ship.delay()

    lab.wait(lambda: seen)
    assert seen == [77]


@pytest.mark.parametrize("control", [Ignore(), Reject("no", requeue=False)])
def test_control_flow_is_not_a_failure(lab, control):
    result = failing(lab, control).delay()

    lab.wait(lambda: [job for job in lab.jobs(result.id) if job.status.ended])
    assert lab.log == [0]
    assert "retry_decided" not in lab.names(result.id)


def test_a_retry_of_the_bodys_own_is_not_decided_again(lab):
    @lab.task(bind=True, failures=QUICK)
    def ship(self):
        lab.log.append(self.request.retries)
        if not self.request.retries:
            raise self.retry(countdown=0)
        return "shipped"

    result = ship.delay()

    assert lab.get(result) == "shipped"
    assert "retry_decided" not in lab.names(result.id)


def test_a_lost_job_is_not_tried_again_beside_its_new_owner(lab):
    result = failing(lab, OwnershipLost()).delay()

    lab.wait(lambda: lab.log)
    lab.idle()
    assert lab.log == [0]
    assert "retry_decided" not in lab.names(result.id)


def test_every_attempt_has_the_same_headers_and_options_whichever_way_it_was_retried(lab):
    seen = []

    @lab.task(bind=True, failures=QUICK, idempotency_key="ship:{order_id}", on_incomplete="resume")
    def ship(self, order_id):
        stamp = dict(self.request.headers[HEADER])
        assert stamp.pop("a")  # when this attempt was published
        seen.append(
            (self.request.headers["tenant"], self.request.expires, self.request.delivery_info["priority"], stamp)
        )
        if self.request.retries == 0:
            raise ConnectionResetError
        if self.request.retries == 1:
            raise self.retry(exc=ValueError("more"), countdown=0)
        return "shipped"

    result = ship.apply_async((5,), headers={"tenant": "acme"}, expires=600, priority=3)

    assert lab.get(result) == "shipped"
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0] == "acme"
    assert seen[0][1] is not None


def test_a_links_and_a_chords_job_is_sent_on_once_when_the_last_attempt_succeeds(lab):
    ship = failing(lab, ConnectionResetError(), times=2)

    @lab.task(ignore_result=True)
    def told(value):
        lab.log.append(value)

    lab.get(ship.apply_async(link=told.s()))

    lab.wait(lambda: "shipped" in lab.log)
    lab.idle()
    assert lab.log == [0, 1, 2, "shipped"]


def test_where_a_side_effect_is_in_doubt_nothing_is_tried_again_that_can_not_find_out(lab):
    result = failing(lab, TimeoutError("no answer"), idempotency_key="ship:{order_id}").delay(5)

    lab.error(result)
    lab.settled(result.id)
    assert lab.log == [0]
    letter = lab.letter(result.id)
    assert letter.category == "unknown_outcome"
    assert letter.effect == "unknown"


def test_where_the_task_can_ask_for_the_effect_the_next_attempt_asks(lab):
    shipped = []

    @lab.task(failures=QUICK, idempotency_key="ship:{order_id}", verify=lambda order_id: "found" if shipped else None)
    def ship(order_id):
        shipped.append(order_id)
        raise TimeoutError("no answer")

    assert lab.get(ship.delay(5)) == "found"
    assert shipped == [5]


def test_a_failure_that_leaves_no_doubt_is_tried_again_also_with_a_key(lab):
    result = failing(lab, ConnectionRefusedError(), times=1, idempotency_key="ship:{order_id}").delay(5)

    assert lab.get(result) == "shipped"
    assert lab.log == [0, 1]


def test_a_duplicate_waits_until_the_retries_are_over(lab):
    ship = failing(lab, ConnectionRefusedError(), times=2, idempotency_key="ship:{order_id}")
    first, second = ship.delay(5), ship.delay(5)

    assert lab.get(first) == "shipped"
    lab.wait(lambda: lab.release_due() or second.ready())
    assert lab.get(second) == "shipped"
    assert lab.log == [0, 1, 2]


def test_the_tasks_own_rules_decide_first(lab):
    own = FailurePolicy(rules=[rule("permanent", TimeoutError)], unclassified=SOON)
    bug = failing(lab, KeyError("bug"), times=1, failures=own)
    slow = failing(lab, TimeoutError(), times=1, failures=own)

    assert lab.get(bug.delay()) == "shipped"
    assert isinstance(lab.error(slow.delay()), TimeoutError)


def test_without_a_policy_failures_are_only_classified(lab):
    result = failing(lab, ConnectionRefusedError("refused"), failures=None).delay()

    lab.error(result)
    lab.settled(result.id)
    assert lab.log == [0]
    assert lab.letter(result.id).category == "dependency"
    (failed,) = [event for event in lab.events(result.id) if event.name == "failed"]
    assert failed.attributes["rule"] == "network: away"


def test_an_eager_job_is_tried_again_at_once(lab):
    lab.configure(eager="record")
    lab.app.conf.task_always_eager = True
    try:
        assert failing(lab, Transient("later"), times=2).delay().get() == "shipped"
    finally:
        lab.app.conf.task_always_eager = False
    assert lab.log == [0, 1, 2]


def test_a_job_that_is_too_old_is_given_up(lab):
    policy = FailurePolicy(transient=Retry(first_s=0.05, cap_s=0.05, max_attempts=500, max_age_s=0.4))
    result = failing(lab, Transient("later"), failures=policy).delay()

    assert isinstance(lab.error(result), (Transient, RecordedFailure))
    assert 2 <= len(lab.log) < 500
    (refused,) = [event for event in lab.events(result.id) if event.name == "retry_refused"]
    assert "0.4 s is the most" in refused.attributes["decision"]


def test_a_final_failure_may_be_told_to_be_a_dead_letter_by_category(lab):
    policy = FailurePolicy(transient=DeadLetter())
    result = failing(lab, Transient("later"), failures=policy).delay()

    lab.error(result)
    lab.settled(result.id)
    assert lab.log == [0]
    assert lab.letter(result.id).category == "transient"
