"""Chains, groups, chords, callbacks and replacement: our layer skips and repeats nothing of them."""

from __future__ import annotations

import pytest
from celery import chain, chord, group
from celery.exceptions import Ignore, Reject
from celery.worker import state

from celery_replay import Outcome
from celery_replay.states import Reason


@pytest.fixture
def add(lab):
    @lab.task()
    def add(x, y=0):
        lab.log.append((x, y))
        return x + y

    return add


def test_a_chain_passes_results_on(any_lab, add):
    assert any_lab.get(chain(add.s(1, 1), add.s(2), add.s(3)).apply_async()) == 7
    assert any_lab.log == [(1, 1), (2, 2), (4, 3)]


def test_after_a_retry_the_rest_of_the_chain_runs_once(lab, add):
    @lab.task(bind=True, max_retries=2)
    def flaky(self, x):
        lab.log.append("flaky")
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        return x

    assert lab.get(chain(flaky.s(1), add.s(1), add.s(1)).apply_async()) == 3
    lab.idle()
    assert lab.log == ["flaky"] * 3 + [(1, 1), (2, 1)]


def test_a_group_gives_all_results(lab, add):
    assert lab.get(group(add.s(n, n) for n in range(5)).apply_async()) == [0, 2, 4, 6, 8]


def test_a_chord_runs_its_body_once_with_all_results(any_lab, add):
    lab = any_lab

    @lab.task()
    def total(parts):
        lab.log.append("total")
        return sum(parts)

    assert lab.get(chord([add.s(n, 1) for n in range(5)], total.s()).apply_async()) == 15
    lab.idle()
    assert lab.log.count("total") == 1


def test_chords_in_chords_end(lab, add):
    @lab.task()
    def total(parts):
        return sum(parts)

    inner = [chord([add.s(n, 1) for n in range(3)], total.s()) for _ in range(2)]

    assert lab.get(chord(inner, total.s()).apply_async()) == 12


def test_a_chord_with_duplicated_members_ends(lab):
    @lab.task(idempotency_key="part:{n}")
    def part(n):
        lab.log.append(n)
        return n

    @lab.task()
    def total(parts):
        return sum(parts)

    first = chord([part.s(n) for n in (1, 2, 1, 2)], total.s()).apply_async()
    second = chord([part.s(n) for n in (2, 1)], total.s()).apply_async()

    assert (lab.get(first), lab.get(second)) == (6, 3)
    assert sorted(lab.log) == [1, 2]


def test_a_chord_with_retried_members_ends(lab):
    @lab.task(bind=True, max_retries=3)
    def part(self, n):
        if self.request.retries < n:
            raise self.retry(countdown=0)
        return n

    @lab.task()
    def total(parts):
        lab.log.append("total")
        return sum(parts)

    assert lab.get(chord([part.s(n) for n in range(4)], total.s()).apply_async()) == 6
    lab.idle()
    assert lab.log == ["total"]


def test_a_chord_with_failing_members_has_a_letter_for_each(lab):
    @lab.task()
    def part(n):
        if n % 2:
            raise ValueError(n)
        return n

    @lab.task()
    def total(parts):
        lab.log.append("total")

    result = chord([part.s(n) for n in range(4)], total.s()).apply_async()
    lab.error(result)
    for member in result.parent.results:
        lab.settled(member.id)
    lab.idle()

    assert lab.log == []
    members = [letter for letter in lab.letters() if letter.task_id != result.id]
    assert sorted(letter.error_message for letter in members) == ["1", "3"]


def test_callbacks_run_once_each(lab, add):
    result = add.apply_async((1, 1), link=[add.s(10), add.s(20)])
    lab.get(result)
    lab.wait(lambda: len(lab.log) == 3)
    lab.idle()

    assert sorted(lab.log) == [(1, 1), (2, 10), (2, 20)]


def test_an_errback_runs_once_after_the_last_attempt(lab):
    @lab.task(bind=True, max_retries=2)
    def pay(self):
        lab.log.append("tried")
        raise self.retry(countdown=0, exc=ValueError("down"))

    @lab.task()
    def apologise(request, error, traceback):
        lab.log.append(type(error).__name__)

    result = pay.apply_async(link_error=apologise.s())
    lab.error(result)
    lab.settled(result.id)
    lab.idle()

    assert lab.log == ["tried"] * 3 + ["ValueError"]


def test_children_of_a_canvas_know_what_caused_them(lab, add):
    result = chain(add.s(1, 1), add.s(1)).apply_async()
    lab.get(result)
    parent, child = lab.settled(result.parent.id), lab.settled(result.id)

    assert child.causation_id == parent.submission
    assert child.correlation_id == parent.correlation_id
    assert child.submission != parent.submission


# Replacement


def replacing(lab, make, **options):
    @lab.task(bind=True, **options)
    def host(self, order_id=5):
        lab.log.append("host")
        return self.replace(make())

    return host


def test_a_task_may_replace_itself(any_lab, add):
    lab = any_lab
    result = replacing(lab, lambda: add.s(1, 2)).delay()

    assert lab.get(result) == 3
    job = lab.settled(result.id)
    assert (job.status, lab.letters()) == (Outcome.SUCCEEDED, [])
    assert lab.log == ["host", (1, 2)]


@pytest.mark.parametrize("kind", ["task", "chain", "group", "chord"])
def test_whatever_replaces_a_task_nothing_of_it_is_left_waiting(lab, add, kind):
    @lab.task()
    def total(parts):
        return sum(parts)

    made = {
        "task": (lambda: add.s(1, 2), 3),
        "chain": (lambda: chain(add.s(1, 2), add.s(3), add.s(4)), 10),
        "group": (lambda: group(add.s(1, 2), add.s(3, 4)), [3, 7]),
        "chord": (lambda: chord([add.s(1, 2), add.s(3, 4)], total.s()), 10),
    }
    make, value = made[kind]
    result = replacing(lab, make).delay()

    assert lab.get(result) == value
    lab.idle()
    lab.clock.forward(30 * 86_400)
    lab.release_due()
    assert lab.letters() == []
    assert list(lab.store.rows()) == []


def test_a_copy_of_a_replaced_task_does_nothing(lab, add):
    result = replacing(lab, lambda: chain(add.s(1, 2), add.s(3))).delay()
    assert lab.get(result) == 6
    lab.settled(result.id)
    lab.redeliver(lab.messages(result.id)[0])
    lab.idle()

    assert lab.log == ["host", (1, 2), (3, 3)]


def test_a_duplicate_of_a_replaced_task_gets_what_the_replacement_returned(lab, add):
    host = replacing(lab, lambda: chain(add.s(1, 2), add.s(3)), idempotency_key="host:{order_id}")
    first = host.delay(5)
    assert lab.get(first) == 6
    lab.settled(first.id)

    assert lab.get(host.delay(5)) == 6
    assert lab.log == ["host", (1, 2), (3, 3)]


def test_a_replacement_may_be_retried_and_replace_itself_again(lab, add):
    @lab.task(bind=True, max_retries=2)
    def second(self):
        lab.log.append("second")
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        return self.replace(add.s(1, 2))

    result = replacing(lab, second.si).delay()

    assert lab.get(result) == 3
    lab.settled(result.id)
    lab.idle()
    assert lab.log == ["host", "second", "second", "second", (1, 2)]
    assert lab.letters() == []


def test_a_member_of_a_chain_may_be_replaced(lab, add):
    host = replacing(lab, lambda: add.s(1, 2))

    assert lab.get(chain(host.si(), add.s(10), add.s(100)).apply_async()) == 113
    lab.idle()
    assert lab.log == ["host", (1, 2), (3, 10), (13, 100)]


def test_headers_forwarded_to_a_child_do_not_make_it_the_parents_copy(lab, add):
    @lab.task(bind=True)
    def parent(self):
        return add.apply_async((1, 2), headers=dict(self.request.headers)).id

    result = replacing(lab, parent.si).delay()
    child = lab.get(result)
    lab.settled(child)

    assert (1, 2) in lab.log
    assert lab.job(child).submission != lab.job(result.id).submission


# Two tasks of one id


def test_two_tasks_published_under_one_id_are_two_jobs(lab, add):
    @lab.task()
    def other():
        lab.log.append("other")

    add.apply_async((1, 2), task_id="same")
    other.apply_async(task_id="same")
    lab.wait(lambda: len(lab.log) == 2)
    lab.idle()

    assert len({job.submission for job in lab.jobs("same")}) == 2


def test_a_body_may_publish_another_task_under_its_own_id(lab, add):
    @lab.task(bind=True)
    def parent(self):
        add.apply_async((1, 2), task_id=self.request.id)

    result = parent.delay()
    lab.wait(lambda: lab.log)
    lab.idle()

    assert lab.log == [(1, 2)]
    assert len(lab.jobs(result.id)) == 2


# Control flow


def test_a_body_that_raises_ignore_ends_and_its_copies_do_nothing(any_lab):
    lab = any_lab

    @lab.task()
    def pay():
        lab.log.append("paid")
        raise Ignore

    result = pay.delay()
    assert lab.settled(result.id).status is Outcome.IGNORED
    lab.redeliver(lab.messages(result.id)[0])
    lab.idle()

    assert lab.log == ["paid"]
    assert lab.letters() == []


def test_a_body_that_rejects_its_message_has_failed_and_says_so(lab):
    @lab.task(acks_late=True)
    def pay():
        raise Reject("no such order", requeue=False)

    result = pay.delay()
    lab.wait(lab.letters)

    assert lab.job(result.id).status is Outcome.FAILED
    assert lab.letter(result.id).reason is Reason.REJECTED
    assert lab.names(result.id).count("failed") == 1


def test_a_body_that_gives_its_message_back_runs_again(lab):
    lab.configure(requeue_delay=0.01)

    @lab.task(acks_late=True)
    def pay():
        lab.log.append("tried")
        if len(lab.log) < 4:
            raise Reject("later", requeue=True)
        return "paid"

    result = pay.delay()
    for count in (1, 2, 3):
        lab.wait(lambda count=count: [row for row in lab.store.rows() if row.requeues == count], "its waiting")
        lab.clock.forward(1)
        lab.release_due()

    assert lab.get(result) == "paid"
    job = lab.settled(result.id)
    assert [attempt.outcome for attempt in lab.store.attempts(job.submission)] == ["requeued"] * 3 + ["succeeded"]
    assert lab.letters() == []


def test_control_flow_is_never_a_failure_category(lab):
    @lab.task(bind=True, autoretry_for=(Exception,), max_retries=5)
    def pay(self):
        lab.log.append("tried")
        raise Ignore

    result = pay.delay()
    lab.settled(result.id)
    lab.idle()

    assert lab.log == ["tried"]


def test_a_revoked_job_does_not_run(lab):
    @lab.task()
    def pay():
        lab.log.append("paid")

    result = pay.apply_async(countdown=0.3)
    lab.app.control.revoke(result.id)
    lab.wait(lambda: result.id in state.revoked)
    lab.idle()

    assert lab.log == []
