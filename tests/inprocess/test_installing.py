"""Taking celery-replay in and out again, and several apps in one process."""

from __future__ import annotations

import pytest
from celery import signals

import celery_replay
from celery_replay import extension, signal_handlers
from celery_replay.headers import HEADER
from celery_replay.runtime import runtime_of, use_store
from celery_replay.stores.memory import MemoryStore
from tests.inprocess.broker import copies
from tests.inprocess.lab import Lab, make_app


@pytest.fixture
def published():
    """Remember the headers of everything that is published."""
    seen = []

    def remember(headers=None, **_):
        seen.append(headers)

    signals.after_task_publish.connect(remember)
    yield seen
    signals.after_task_publish.disconnect(remember)


def stamp(result):
    return copies(result.id)[0].headers.get(HEADER)


def test_installing_twice_connects_once():
    app = make_app("twice")
    celery_replay.install(app)
    before = len(signals.before_task_publish.receivers)

    celery_replay.install(app)
    extension.install(app)

    assert len(signals.before_task_publish.receivers) == before
    assert sorted(step.__name__ for step in app.steps["worker"]) == ["StewardStep", "TrialStep"]


def test_binding_a_task_installs():
    app = make_app("bound")
    assert extension.active(app) is None

    app.task(echo, name="bound.task", shared=False, lazy=False)

    assert extension.active(app) is not None


def echo(order_id):
    return order_id


def test_an_app_that_was_left_runs_as_plain_celery(lab):
    @lab.task(bind=True, idempotency_key="pay:{order_id}")
    def pay(self, order_id):
        lab.log.append(self.attempt is None)
        return order_id

    lab.get(pay.delay(5))
    celery_replay.uninstall(lab.app)
    try:
        lab.get(pay.delay(5))
        lab.get(pay.delay(5))
    finally:
        celery_replay.install(lab.app)
        use_store(lab.app, MemoryStore(lab.clock))

    lab.get(pay.delay(5))
    lab.get(pay.delay(5))
    assert lab.log == [False, True, True, False]


def test_what_is_buffered_when_an_app_is_left_is_written():
    lab = Lab(make_app("leaving"), None)
    lab.configure(eager="record", flush_interval=3600)
    store = lab.store

    @lab.task()
    def pay():
        return 5

    result = pay.apply()
    celery_replay.uninstall(lab.app)

    (job,) = store.find_jobs(task_id=result.id)
    assert job.canvas_advanced is True


def test_without_any_app_nothing_is_stamped(monkeypatch):
    app = make_app("last")
    task = app.task(echo, name="last.task", shared=False, lazy=False)
    others = [other for other in extension._installed if other is not app]
    for other in others:
        extension._installed.discard(other)
    try:
        celery_replay.uninstall(app)
        unstamped = task.delay(5)
        celery_replay.install(app)
        stamped = task.delay(5)
    finally:
        extension._installed.update(others)
        signal_handlers.connect()

    assert stamp(unstamped) is None
    assert stamp(stamped) is not None


def test_two_apps_have_their_own_stores_and_policies():
    labs = [Lab(make_app(name), None) for name in ("shop", "blog")]
    for lab in labs:
        lab.configure(eager="record")

        @lab.task(name="shared.name", idempotency_key="k")
        def work(value, lab=None):
            return value

    values = [lab.app.tasks["shared.name"].apply((number,)).get() for number, lab in enumerate(labs)]

    assert values == [0, 1]
    assert [len(list(lab.store.find_jobs())) for lab in labs] == [1, 1]
    assert runtime_of(labs[0].app) is not runtime_of(labs[1].app)


def test_a_key_is_computed_by_the_app_that_publishes():
    shop, blog = make_app("shop"), make_app("blog")
    ours = shop.task(echo, name="same.name", shared=False, lazy=False, idempotency_key="shop:{order_id}")
    theirs = blog.task(echo, name="same.name", shared=False, lazy=False, idempotency_key="blog:{order_id}")

    for app in (shop, blog):
        app.set_current()
        assert stamp(ours.delay(5))["k"] == "shop:5"
        assert stamp(theirs.s(5).apply_async())["k"] == "blog:5"


def test_a_task_of_one_app_may_publish_one_of_another(lab):
    other = make_app("other")
    remote = other.task(echo, name="other.remote", shared=False, lazy=False, idempotency_key="r:{order_id}")

    @lab.task(bind=True)
    def pay(self):
        return [self.attempt.submission, remote.delay(5).id]

    submission, remote_id = lab.get(pay.delay())

    header = copies(remote_id)[0].headers[HEADER]
    assert (header["p"], header["k"]) == (submission, "r:5")


def test_a_plain_apps_messages_do_not_depend_on_ours(published):
    from celery import Celery

    plain = Celery("plain", broker="memory://", set_as_current=False)
    task = plain.task(echo, name="plain.task", shared=False, lazy=False)

    task.delay(5)

    assert published[-1]["task"] == "plain.task"


@pytest.mark.parametrize("broken", ["_stamp", "_identify"])
def test_an_error_of_ours_never_stops_a_publish(monkeypatch, broken):
    app = make_app("unbroken")
    task = app.task(echo, name="unbroken.task", shared=False, lazy=False, idempotency_key="{order_id}")

    def fail(*_, **__):
        raise RuntimeError("ours")

    monkeypatch.setattr(signal_handlers, broken, fail)

    assert copies(task.delay(5).id)
