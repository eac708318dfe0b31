from __future__ import annotations

import warnings
from datetime import timedelta

import pytest
from celery import Celery, Task

from celery_replay import ReplayTask, targets
from celery_replay.clock import SECOND
from celery_replay.config import load
from celery_replay.exceptions import ConfigurationError
from celery_replay.policy import OPTIONS, check_options, compile_policy, unprotected
from celery_replay.states import AckMode, Capture, OnIncomplete
from tests.support.versions import needs

BAD_OPTIONS = {
    "idempotency_key": ["", 5, ["order:{order_id}"]],
    "on_incomplete": ["retry", True, ""],
    "verify": ["look", 5],
    "atomic": [True, "", [], ["default", ""], ["default", "default"], {"default"}],
    "fenced": [True, ""],
    "on_failed_key": ["skip", True],
    "on_store_error": ["ajar", True],
    "resources": [[], "", 5, [5], ["order:{order_id}", ""], True],
    "on_contention": ["wait", True, ""],
    "lease_ttl": [0, "60", True, -5],
    "key_retention": [0, "60", True, -5],
    "allow_rollback": ["yes", 1],
    "stepwise": ["yes", 1],
    "replay": ["always", True],
    "capture": ["all", True, "", 1],
    "postconditions": [dict, "order", [3], {"order": dict}],
    "failures": [3, "retry", {"transient": 3}],
    "state": [[], "order", {"order": 3}, {1: dict}, {"": dict}],
}


@pytest.fixture
def app():
    with Celery("shop", task_cls=ReplayTask, set_as_current=False, broker="memory://") as app:
        app.conf.replay_store = "memory://"
        yield app


class Databases:
    """What a task that is no Django project's might write to."""

    @staticmethod
    def check(aliases):
        if "nowhere" in aliases:
            raise ConfigurationError("there is no 'nowhere'; name one of default, other")


def ship(order_id, carrier="post", *, express=False):
    return order_id, carrier, express


def ship_bound(self, order_id):
    return order_id


@pytest.fixture
def declare(app):
    def declare(function=ship, name="shop.ship", **options):
        return app.task(function, name=name, lazy=False, shared=False, **{"replay_target": Databases, **options})

    return declare


def policy_of(task, **settings):
    return compile_policy(task, load({f"replay_{name}": value for name, value in settings.items()}))


# What may be declared


def test_a_task_says_how_much_of_its_data_is_traced_and_else_the_setting_does(declare):
    assert policy_of(declare()).capture is Capture.KEYS
    assert policy_of(declare(), capture="none").capture is Capture.NONE
    assert policy_of(declare(name="shop.full", capture="full"), capture="none").capture is Capture.FULL


def test_every_option_has_a_bad_value_in_these_tests():
    assert set(BAD_OPTIONS) == set(OPTIONS)


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option, values in BAD_OPTIONS.items() for value in values]
)
def test_a_bad_option_is_an_error_when_the_task_is_bound(declare, option, value):
    with pytest.raises(ConfigurationError) as caught:
        declare(**{option: value})

    assert str(caught.value).startswith(f"task shop.ship: {option}={value!r}: must be {OPTIONS[option]}")


def test_on_incomplete_verify_without_a_hook_is_an_error_when_the_task_is_bound(declare):
    with pytest.raises(ConfigurationError, match=r'on_incomplete="verify" needs verify='):
        declare(on_incomplete="verify")


@pytest.mark.parametrize("options", [{"atomic": ["default", "nowhere"]}, {"fenced": "nowhere"}], ids=str)
def test_a_database_that_is_not_there_is_an_error_that_names_the_others(declare, options):
    with pytest.raises(ConfigurationError, match=r"task shop.ship: \w+=.*nowhere.*; name one of default, other"):
        declare(**options)


@pytest.mark.parametrize("options", [{"atomic": "default"}, {"fenced": "default"}], ids=str)
def test_databases_without_an_adapter_are_an_error_that_says_the_mend(declare, options):
    with pytest.raises(ConfigurationError, match='task_cls="django_celery_replay:ReplayTask"'):
        declare(**options, replay_target=None)


def test_a_task_that_is_none_of_ours_may_use_these_words(app):
    targets.check(app.task(ship, name="foreign", base=Task, lazy=False, shared=False, atomic=True, fenced="garden"))


@pytest.mark.parametrize("template", ["ship:{order}", "ship:{order.id}", "ship:{order[id]}", "{order_id}:{order!r}"])
def test_a_key_that_names_an_unknown_parameter_is_an_error_that_lists_the_parameters(declare, template):
    with pytest.raises(ConfigurationError) as caught:
        declare(idempotency_key=template)

    assert "names 'order', which is no parameter of the task (carrier, express, order_id)" in str(caught.value)


def test_a_bound_tasks_self_is_no_parameter_of_its_key(declare):
    with pytest.raises(ConfigurationError, match=r"names 'self'"):
        declare(ship_bound, bind=True, idempotency_key="{self}")


@pytest.mark.parametrize("option", ["verify", "idempotency_key"])
@pytest.mark.parametrize("hook", [lambda oid: None, lambda order_id, *, country: None])
def test_a_hook_that_wants_what_the_task_has_not_is_an_error(declare, option, hook):
    with pytest.raises(ConfigurationError, match=rf"{option}= wants (oid|country), which is no parameter of the task"):
        declare(**{option: hook})


@pytest.mark.parametrize("option", ["verify", "idempotency_key"])
def test_a_hook_that_would_return_before_it_has_run_is_an_error(declare, option):
    async def later(order_id): ...

    with pytest.raises(ConfigurationError, match=f"{option}= returns before it has run"):
        declare(**{option: later})


@pytest.mark.parametrize("options", [{}, {"autoretry_for": (OSError,)}, {"bind": True}], ids=str)
def test_a_body_that_would_return_before_it_has_run_is_an_error(declare, options):
    async def ship(order_id): ...

    with pytest.raises(ConfigurationError, match=r"its body is async def, .* asyncio.run\(\)"):
        declare(ship, **options)


@pytest.mark.parametrize(
    ("hook", "given"),
    [
        (lambda: (), ()),
        (lambda order_id: order_id, 5),
        (lambda express, order_id: (express, order_id), (False, 5)),
        (lambda carrier, missing=7: (carrier, missing), ("post", 7)),
        (lambda **every: sorted(every), ["carrier", "express", "order_id"]),
    ],
)
def test_a_hook_gets_those_arguments_that_it_names(declare, hook, given):
    policy = policy_of(declare(verify=hook, idempotency_key=lambda *_, **every: repr(every)))

    assert policy.verify(5) == policy.verify(order_id=5) == given


def test_a_hook_written_as_a_method_takes_the_task_first(app):
    class Ship(ReplayTask):
        name = "shop.ship"

        def run(self, order_id):
            return order_id

        def verify(self, order_id):
            return None

    app.register_task(Ship)
    Ship.verify = lambda self, oid: None
    with pytest.raises(ConfigurationError, match="verify= wants oid"):
        check_options(Ship)


def test_a_key_in_positions_is_an_error(declare):
    with pytest.raises(ConfigurationError, match="no parameter"):
        declare(idempotency_key="ship:{}")


@pytest.mark.parametrize("misspelt", ["idempotency_kye", "on_incomplet", "lease_tll", "key_retension"])
def test_an_option_that_nearly_is_one_of_ours_is_warned_of(declare, misspelt):
    with pytest.warns(UserWarning, match=f"shop.ship has the option '{misspelt}': did you mean '"):
        declare(**{misspelt: "x"})


def test_a_task_of_another_class_that_declares_our_options_is_told_of(app):
    class Mine(Task):
        abstract = True

        @property
        def atomic(self):
            raise RuntimeError("nobody's business")

    def ship():
        pass

    for name, options in {
        "plain": {},
        "own": {"idempotency_key": "a", "lease_ttl": 5},
        "others": {"base": Task, "owner": "billing"},
        "mine": {"base": Mine, "idempotency_key": "a", "lease_ttl": 5},
        "celerys": {"base": Task, "atomic": "default"},
    }.items():
        app.task(ship, name=f"shop.{name}", shared=False, **options)

    mine, celerys = sorted(unprotected(app.tasks.values()), reverse=True)
    assert mine.startswith("task shop.mine declares idempotency_key, lease_ttl, which is not in force: its class ")
    assert f"{Mine.__module__}.{Mine.__qualname__} is no ReplayTask" in mine
    assert "task shop.celerys declares atomic" in celerys
    assert "celery.app.task.Task is no ReplayTask" in celerys


def test_options_of_celery_and_of_the_user_are_not_warned_of(declare):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        declare(
            max_retries=5,
            rate_limit="5/s",
            owner="billing",
            acks_late=True,
        )


# Acknowledgement


@pytest.mark.parametrize(
    "options",
    [
        {"idempotency_key": "ship:{order_id}"},
        {"on_incomplete": "resume"},
        {"atomic": "default"},
        {"idempotency_key": lambda order_id, **_: order_id},
    ],
)
def test_a_task_that_declares_how_it_is_protected_is_acknowledged_late_and_brought_back(declare, options):
    task = declare(**options)

    assert (task.acks_late, task.reject_on_worker_lost) == (True, True)
    assert policy_of(task).ack is AckMode.LATE


def test_a_task_that_declares_its_acknowledgement_keeps_it(declare):
    task = declare(
        idempotency_key="ship:{order_id}",
        acks_late=False,
        reject_on_worker_lost=False,
    )

    assert (task.acks_late, task.reject_on_worker_lost) == (False, False)
    assert policy_of(task).ack is AckMode.EARLY


@pytest.mark.parametrize("acks_late", [False, True])
@pytest.mark.parametrize("reject", [False, True])
@pytest.mark.parametrize("options", [{}, {"lease_ttl": 5}, {"on_store_error": "closed"}, {"fenced": "default"}])
def test_a_task_that_declares_nothing_follows_the_apps_settings(app, declare, acks_late, reject, options):
    app.conf.update(task_acks_late=acks_late, task_reject_on_worker_lost=reject)

    task = declare(**options)

    assert (task.acks_late, task.reject_on_worker_lost) == (acks_late, reject)


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, AckMode.EARLY),
        ({"acks_late": True}, AckMode.LATE_ACKS_LOSS),
        ({"acks_late": True, "reject_on_worker_lost": True}, AckMode.LATE),
        pytest.param(
            {"acks_late": True, "retry_on_worker_lost": True},
            AckMode.LATE,
            marks=needs("celery", "5.7", "the option is new"),
        ),
        ({"reject_on_worker_lost": True}, AckMode.EARLY),
    ],
)
def test_the_policy_knows_whether_the_broker_brings_a_lost_message_back(declare, options, mode):
    assert policy_of(declare(**options)).ack is mode


def test_declaring_a_base_class_declares_its_tasks(declare):
    class Careful(ReplayTask):
        abstract = True
        on_incomplete = "resume"

    task = declare(base=Careful)

    assert task.acks_late is True
    assert policy_of(task).on_incomplete is OnIncomplete.RESUME


def test_a_task_class_that_is_derived_from_a_bound_one_is_checked_too(app):
    class Ship(ReplayTask):
        name = "shop.ship"

        def run(self, order_id):
            return order_id

    app.register_task(Ship)

    class ShipFast(Ship):
        name = "shop.ship_fast"
        idempotency_key = "ship:{nobody}"

    with pytest.raises(ConfigurationError, match=r"task shop.ship_fast: .* \(order_id\)"):
        app.register_task(ShipFast)


def test_a_plain_task_of_the_same_app_is_left_as_it_is():
    with Celery("plain", set_as_current=False, broker="memory://") as app:
        plain = app.task(ship, name="shop.ship", lazy=False, shared=False, idempotency_key="{nobody}")

        assert plain.acks_late is False


# What is declared by default


def test_without_declarations_a_task_runs_unprotected_while_the_store_is_down(declare):
    assert policy_of(declare()).fail_open is True


def test_a_declared_task_waits_while_the_store_is_down(declare):
    assert policy_of(declare(idempotency_key="{order_id}")).fail_open is False


@pytest.mark.parametrize("word", ["open", "closed"])
def test_the_setting_for_a_store_that_is_down_gives_way_to_the_tasks_own(app, declare, word):
    plain = declare()
    other = app.task(
        ship, name="shop.ship2", lazy=False, shared=False, on_store_error="closed" if word == "open" else "open"
    )

    assert policy_of(plain, on_store_error=word).fail_open is (word == "open")
    assert policy_of(other, on_store_error=word).fail_open is (word != "open")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({}, "dead_letter"),
        ({"idempotency_key": "{order_id}"}, "dead_letter"),
        ({"atomic": "default"}, "resume"),
        ({"verify": lambda *_, **__: None}, "verify"),
        ({"verify": lambda *_, **__: None, "on_incomplete": "resume"}, "resume"),
    ],
)
def test_what_happens_after_a_crash_follows_from_what_is_declared(declare, options, word):
    assert policy_of(declare(**options)).on_incomplete == word


def test_durations_of_a_task_win_over_the_settings(declare):
    task = declare(lease_ttl=5, key_retention=50)

    policy = policy_of(task, lease_ttl=timedelta(seconds=7), retention=70)

    assert (policy.lease_us, policy.keep_us) == (5 * SECOND, 50 * SECOND)


@pytest.mark.parametrize(
    ("name", "excluded"),
    [
        ("celery.chord_unlock", True),
        ("shop.noise", True),
        ("shop.noise2", False),
        ("cron.hourly", True),
        ("shop.cron.hourly", False),
    ],
)
def test_celerys_own_tasks_and_those_that_the_settings_name_are_left_alone(declare, name, excluded):
    task = declare(name=name)

    assert policy_of(task, exclude=["shop.noise", "cron.*"]).excluded is excluded


def test_hooks_given_to_the_decorator_are_called_with_the_tasks_arguments_only(declare):
    task = declare(
        idempotency_key=lambda order_id, **_: f"k{order_id}",
        verify=lambda *a, **_: a,
    )

    policy = policy_of(task)

    assert policy.identify((5,), {})[0] == "k5"
    assert policy.verify(5, "post") == (5, "post")


def test_hooks_written_as_methods_of_a_task_class_get_the_task(app):
    class Ship(ReplayTask):
        name = "shop.ship"
        prefix = "k"

        def run(self, order_id):
            return order_id

        def idempotency_key(self, order_id):
            return f"{self.prefix}{order_id}"

    assert policy_of(app.register_task(Ship)).identify((5,), {})[0] == "k5"


def test_without_the_store_nobody_knows_who_has_a_resource_so_its_tasks_wait(declare):
    named = {"resources": ["order:{order_id}"]}
    assert not policy_of(declare(**named)).fail_open
    assert policy_of(declare(name="shop.open", on_store_error="open", **named)).fail_open
    assert policy_of(declare(name="shop.plain")).fail_open


def test_resources_alone_change_nothing_about_acknowledgement_or_side_effects(declare):
    policy = policy_of(declare(resources=["order:{order_id}"]))
    assert (policy.ack, policy.is_step, policy.declared) == (AckMode.EARLY, False, False)
