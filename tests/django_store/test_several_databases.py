"""`atomic=` with several databases: each commits on its own, and none of them twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from django.db import IntegrityError, connections, transaction

from celery_replay import ConfigurationError, HalfCommitted
from celery_replay.exceptions import RolledBack
from celery_replay.runtime import runtime_of
from celery_replay.states import Effect, Outcome
from celery_replay.worker import StewardStep
from django_celery_replay.models import Fence, Marker
from tests.django_store.shop import Shop
from tests.support.django_stores import database_alias, empty_tables


@pytest.fixture(scope="module")
def second_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('billing')}/billing.sqlite3"


@pytest.fixture
def billing(second_url: str) -> Any:
    """Lend the alias of a second business database."""
    alias = database_alias(second_url)
    empty_tables(alias)
    yield alias
    connections[alias].close()


def write(alias: str) -> None:
    Fence.objects.using(alias).create(name=f"effect {Fence.objects.using(alias).count()}", token=1)


def found(*aliases: str) -> list[tuple[int, int]]:
    """Count effects and markers, in each database."""
    return [(Fence.objects.using(alias).count(), Marker.objects.using(alias).count()) for alias in aliases]


def nothing() -> None: ...


def fail() -> None:
    raise ValueError("the process ends here")


@pytest.fixture
def pay(shop: Shop, business: str, billing: str) -> Callable[..., Any]:
    """Make a task that writes to both databases, and is cut off between their commits so often."""

    def make(cuts: int = 0, body: Callable[[Any], None] | None = None) -> Any:
        runs = iter(range(100))

        @shop.task(idempotency_key="pay", atomic=[business, billing])
        def pay(self: Any) -> str:
            (body or (lambda self: [write(business), write(billing)]))(self)
            if next(runs) < cuts:
                # It runs between the commit of the inner transaction and that of the outer one.
                transaction.on_commit(fail, using=billing)
            return "paid"

        return pay

    return make


def test_both_are_committed_once(pay: Any, shop: Shop, business: str, billing: str) -> None:
    task = pay()
    assert task.apply().get() == "paid"
    # As where the store has forgotten the job: the markers have not.
    runtime_of(shop.app)._store = None
    assert task.apply().get() == "paid"
    assert found(business, billing) == [(1, 1), (1, 1)]
    assert shop.events()["effect_found"].attributes == {"marker": ", ".join(sorted((business, billing)))}
    assert (shop.job().status, shop.job().unsettled) == (Outcome.SUCCEEDED, False)


def test_where_the_body_fails_neither_is_committed(pay: Any, shop: Shop, business: str, billing: str) -> None:
    task = pay(body=lambda self: [write(business), write(billing), fail()])
    with pytest.raises(ValueError, match="the process ends here"):
        task.apply().get()
    assert found(business, billing) == [(0, 0), (0, 0)]
    assert shop.letter().effect is Effect.ABSENT


def test_what_was_committed_in_one_is_not_done_again_there(pay: Any, shop: Shop, business: str, billing: str) -> None:
    task = pay(cuts=1)
    with pytest.raises(ValueError, match="the process ends here"):
        task.apply().get()
    half = [(0, 0), (1, 1)]
    assert found(business, billing) == half
    assert shop.letter().effect is Effect.UNKNOWN
    for _ in range(2):
        with pytest.raises(HalfCommitted, match=rf"committed in database '{billing}' .* \(INSERT\); let it skip"):
            task.apply().get()
        assert found(business, billing) == half
        assert shop.letter().effect is Effect.UNKNOWN


def test_a_body_may_skip_what_is_done_and_do_the_rest(pay: Any, shop: Shop, business: str, billing: str) -> None:
    seen = []

    def body(self: Any) -> None:
        seen.append(self.attempt.committed)
        Fence.objects.using(billing).count()
        for alias in {business, billing} - self.attempt.committed:
            write(alias)

    task = pay(cuts=1, body=body)
    with pytest.raises(ValueError, match="the process ends here"):
        task.apply().get()
    assert task.apply().get() == "paid"
    assert found(business, billing) == [(1, 1), (1, 1)]
    assert seen == [frozenset(), frozenset({billing})]
    assert (shop.job().status, shop.job().unsettled) == (Outcome.SUCCEEDED, False)
    assert task.apply().get() == "paid"
    assert found(business, billing) == [(1, 1), (1, 1)]


def test_with_one_database_an_error_after_its_commit_is_no_proof_of_absence(shop: Shop, business: str) -> None:
    @shop.task(idempotency_key="pay", atomic=business)
    def pay(self: Any) -> str:
        write(business)
        transaction.on_commit(fail, using=business)
        return "paid"

    with pytest.raises(ValueError, match="the process ends here"):
        pay.apply().get()
    assert shop.letter().effect is Effect.UNKNOWN
    assert pay.apply().get() == "paid"
    assert found(business) == [(1, 1)]


@pytest.mark.parametrize("tries", [2, 1])
def test_an_error_of_the_commit_is_retried_as_one_of_the_body_would_be(shop: Shop, business: str, tries: int) -> None:
    begun = []

    @shop.task(atomic=business, autoretry_for=(ValueError,), max_retries=tries - 1, default_retry_delay=0)
    def pay(self: Any) -> str:
        begun.append(self.request.retries)
        write(business)
        if len(begun) == 1:
            transaction.on_commit(fail, using=business)
        return "paid"

    if tries == 1:
        with pytest.raises(ValueError, match="the process ends here"):
            pay.apply().get()
        assert shop.letter().effect is Effect.UNKNOWN
    else:
        # The marker tells it that the transaction had been committed.
        assert pay.apply().get() == "paid"
        assert (shop.job().status, shop.letter()) == (Outcome.SUCCEEDED, None)
    assert (begun, found(business)) == ([0], [(1, 1)])


def test_what_is_refused_after_the_body_is_not_retried(shop: Shop, business: str) -> None:
    begun = []

    @shop.task(atomic=business, autoretry_for=(Exception,), max_retries=3, default_retry_delay=0)
    def pay(self: Any) -> None:
        begun.append(self.request.retries)
        with transaction.atomic(using=business):
            write(business)
            with suppress(IntegrityError):
                Fence.objects.using(business).create(name="effect 0", token=1)

    with pytest.raises(RolledBack):
        pay.apply().get()
    assert (begun, found(business)) == ([0], [(0, 0)])


# What may be named


def declare(**options: Any) -> None:
    app = Celery("shop", task_cls="django_celery_replay:ReplayTask", set_as_current=False)
    app.task(nothing, name="pay", shared=False, lazy=False, **options)


@pytest.mark.parametrize("options", [{"atomic": "bank"}, {"atomic": ["default", "bank"]}, {"fenced": "bank"}], ids=str)
def test_a_database_that_is_not_there_is_an_error_when_the_task_is_bound(options: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"task pay: \w+=.*: DATABASES has no 'bank'; name one of .*default"):
        declare(**options)


def test_one_database_under_two_names_is_an_error(business: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings, "again", {**connections.settings[business]})
    with pytest.raises(ConfigurationError, match="are one database; name one of them"):
        declare(atomic=[business, "again"])


def test_a_worker_looks_again_for_what_was_not_known_when_tasks_were_bound() -> None:
    app = Celery("shop", task_cls="django_celery_replay:ReplayTask", set_as_current=False)
    app.conf.replay_store = "memory://"
    task = app.task(nothing, name="pay", shared=False, lazy=False, atomic="default")
    type(task).atomic = "bank"

    worker = SimpleNamespace(app=app)
    with pytest.raises(ConfigurationError, match="DATABASES has no 'bank'"):
        StewardStep(worker).start(worker)
