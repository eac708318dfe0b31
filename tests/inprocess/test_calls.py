"""Calls that are no jobs: eager ones, direct ones, and tasks that are left alone."""

from __future__ import annotations

import pytest
from celery.exceptions import Retry

from celery_replay import ReplayTask, current_attempt, record
from celery_replay.runtime import runtime_of, use_store
from celery_replay.stores.memory import MemoryStore
from celery_replay.trace import timeline
from tests.inprocess.lab import Gate, Lab, make_app


@pytest.fixture(params=["apply", "always eager"])
def eager(request):
    """Lend a lab without a worker, and a way to call a task eagerly."""
    lab = Lab(make_app("eager"), None)
    lab.app.conf.task_always_eager = request.param == "always eager"

    def call(task, *args, **kwargs):
        return task.delay(*args, **kwargs) if request.param == "always eager" else task.apply(args, kwargs)

    return lab, call


@pytest.fixture
def recorded(eager):
    lab, call = eager
    lab.configure(eager="record")
    return lab, call


def all_jobs(lab):
    return list(lab.store.find_jobs())


# Eager, by default without records


def test_an_eager_call_leaves_no_records(eager):
    lab, call = eager

    @lab.task(bind=True, idempotency_key="pay:{order_id}")
    def pay(self, order_id):
        lab.log.append(self.attempt)
        record("paid")
        return order_id

    assert [call(pay, 5).get(), call(pay, 5).get()] == [5, 5]
    assert lab.log == [None, None]
    assert all_jobs(lab) == []


def test_an_eager_retry_runs_at_once(eager):
    lab, call = eager

    @lab.task(bind=True, max_retries=3)
    def pay(self):
        lab.log.append(self.request.retries)
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        return "paid"

    assert call(pay).get() == "paid"
    assert lab.log == [0, 1, 2]


def test_an_eager_error_reaches_the_caller(eager):
    lab, call = eager

    @lab.task()
    def pay():
        raise ValueError("declined")

    with pytest.raises(ValueError, match="declined"):
        call(pay).get()


def test_an_eager_call_opens_no_store(eager):
    lab, call = eager

    class Closed(MemoryStore):
        def _unit(self):
            raise AssertionError("opened")

    lab.use(Closed())

    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        return order_id

    assert call(pay, 5).get() == 5


# Eager, with records


def test_a_recorded_eager_call_is_a_job(recorded):
    lab, call = recorded

    @lab.task(bind=True)
    def pay(self):
        record("checked", amount=5)
        return self.attempt.submission

    submission = call(pay).get()

    (job,) = all_jobs(lab)
    assert (job.submission, str(job.status)) == (submission, "succeeded")
    names = [event.name for event in timeline(lab.store, job.trace_id)]
    assert names == ["started", "checked", "succeeded"]


def test_a_recorded_eager_duplicate_gets_the_first_result(recorded):
    lab, call = recorded

    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        return 0

    assert [call(pay, 5).get(), call(pay, 5).get()] == [0, 0]
    assert lab.log == [5]


@pytest.mark.parametrize("kind", ["explicit", "automatic"])
def test_recorded_eager_retries_are_attempts_of_one_job(recorded, kind):
    lab, call = recorded
    automatic = {"autoretry_for": (ValueError,), "default_retry_delay": 0} if kind == "automatic" else {}

    @lab.task(bind=True, max_retries=3, idempotency_key="pay:{order_id}", **automatic)
    def pay(self, order_id):
        lab.log.append(self.request.retries)
        if self.request.retries < 2:
            if kind == "automatic":
                raise ValueError("down")
            raise self.retry(countdown=0)
        return "paid"

    assert call(pay, 5).get() == "paid"
    assert lab.log == [0, 1, 2]
    (job,) = all_jobs(lab)
    assert [a.outcome for a in lab.store.attempts(job.submission)] == [
        "retry_scheduled",
        "retry_scheduled",
        "succeeded",
    ]


def test_recorded_eager_retries_end_with_one_letter(recorded):
    lab, call = recorded

    @lab.task(bind=True, max_retries=2)
    def pay(self):
        lab.log.append(self.request.retries)
        raise self.retry(countdown=0, exc=ValueError("down"))

    with pytest.raises((ValueError, Retry)):
        call(pay).get()

    assert lab.log == [0, 1, 2]
    (letter,) = lab.letters()
    assert (letter.attempts, letter.error_message) == (3, "down")


def test_a_recorded_eager_call_in_a_body_is_a_job_of_its_own(recorded):
    lab, call = recorded

    @lab.task(bind=True)
    def inner(self):
        return self.attempt.submission

    @lab.task(bind=True)
    def outer(self):
        child = inner.apply().get(disable_sync_subtasks=False)
        return [self.attempt.submission, child, current_attempt().submission]

    own, child, after = call(outer).get(disable_sync_subtasks=False)

    assert own == after != child
    assert len(all_jobs(lab)) == 2


@pytest.mark.parametrize("policy", ["open", "closed"])
def test_a_recorded_eager_call_with_the_store_down_publishes_nothing(recorded, policy):
    lab, call = recorded

    class Down(MemoryStore):
        def _unit(self):
            raise ConnectionError("down")

    lab.use(Down())

    @lab.task(on_store_error=policy)
    def pay():
        lab.log.append("paid")
        return 5

    result = call(pay)

    assert lab.messages(result.id) == []
    if policy == "open":
        assert result.get() == 5
    else:
        assert lab.log == []


def test_a_recorded_eager_call_that_has_to_wait_is_answered_by_a_worker_later(lab):
    lab.configure(eager="record")
    gate = Gate()

    @lab.task(idempotency_key="pay:{order_id}")
    def pay(order_id):
        lab.log.append(order_id)
        gate.wait()
        return "paid"

    first = pay.delay(5)
    gate.await_reached()
    second = pay.apply((5,))
    gate.open()

    assert second.state == "IGNORED"
    assert lab.get(first) == lab.get(lab.app.AsyncResult(second.id)) == "paid"
    assert lab.settled(second.id).status == "deduplicated"
    assert lab.log == [5]


# Direct calls


def test_a_task_called_as_a_function_is_a_function(any_lab):
    lab = any_lab

    @lab.task(bind=True, idempotency_key="pay:{order_id}")
    def pay(self, order_id):
        return order_id, self.attempt

    assert [pay(5), pay(5), pay.run(5)] == [(5, None)] * 3
    assert all_jobs(lab) == []


def test_a_direct_calls_error_is_its_own(lab):
    @lab.task()
    def pay():
        raise ValueError("declined")

    with pytest.raises(ValueError, match="declined"):
        pay()

    assert lab.letters() == []


def test_a_task_called_as_a_function_in_a_body_belongs_to_the_running_attempt(lab):
    @lab.task(bind=True, idempotency_key="inner:{n}")
    def inner(self, n):
        record("inside", n=n)
        return [self.attempt, current_attempt().submission]

    @lab.task(bind=True)
    def outer(self):
        return [inner(5), inner(5), self.attempt.submission]

    result = outer.delay()
    first, second, own = lab.get(result)

    assert first == second == [None, own]
    assert lab.names(result.id).count("inside") == 2
    assert len(all_jobs(lab)) == 1


def test_a_retry_in_a_task_called_as_a_function_raises_its_cause(lab):
    @lab.task(bind=True)
    def inner(self):
        raise self.retry(exc=ValueError("down"))

    @lab.task()
    def outer():
        inner()

    result = outer.delay()

    assert isinstance(lab.error(result), ValueError)
    assert lab.settled(result.id).status == "failed"


def test_domain_events_outside_of_a_job_go_nowhere():
    record("nothing", amount=5)

    assert current_attempt() is None


# Tasks that are left alone


def test_an_excluded_task_runs_plainly(lab):
    lab.configure(exclude=["lab.noise.*"])

    @lab.task(name="lab.noise.hum", bind=True, idempotency_key="hum:{n}")
    def hum(self, n):
        lab.log.append(n)
        return self.attempt is None

    assert [lab.get(hum.delay(5)), lab.get(hum.delay(5))] == [True, True]
    assert all_jobs(lab) == []


def test_celerys_own_tasks_are_left_alone(lab):
    @lab.task()
    def add(x):
        return x + 1

    results = lab.get(lab.app.tasks["celery.starmap"].delay(add.s(), [[1], [2]]))

    assert results == [2, 3]
    assert all_jobs(lab) == []


def test_plain_tasks_live_beside_ours(lab):
    from celery import Task

    @lab.task(base=Task, bind=True)
    def plain(self):
        return type(self).__mro__[1].__name__

    @lab.task()
    def ours():
        return "ours"

    assert (lab.get(plain.delay()), lab.get(ours.delay())) == ("Task", "ours")
    assert [job.operation for job in all_jobs(lab)] == [ours.name]


def test_one_task_may_use_the_base_class_in_a_plain_app():
    from celery import Celery

    app = Celery("plain", broker="memory://", set_as_current=False)
    app.conf.update(replay_store="memory://", replay_eager="record")

    @app.task(base=ReplayTask, idempotency_key="pay:{order_id}", shared=False)
    def pay(order_id):
        return order_id

    use_store(app, MemoryStore())
    assert pay.apply((5,)).get() == 5
    assert len(list(runtime_of(app).store.find_jobs())) == 1
