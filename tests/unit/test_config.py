from __future__ import annotations

import os
import re
from datetime import timedelta
from types import SimpleNamespace

import pytest
from celery import Celery

from celery_replay import config
from celery_replay.clock import SECOND
from celery_replay.config import Settings, load
from celery_replay.exceptions import ConfigurationError
from tests.support.versions import needs

NOT_SECONDS = ["sixty", "60", -1, True, float("nan"), float("inf"), [], timedelta(seconds=-5)]
BAD = {
    "lease_ttl": [*NOT_SECONDS, 0, 0.5],
    "lease_ttl_max": [*NOT_SECONDS, 0, 0.5],
    "canvas_ttl": NOT_SECONDS,
    "retention": [*NOT_SECONDS, 0],
    "poison_cap": ["5", 0, -1, True, 2.5, timedelta(seconds=5)],
    "requeue_cap": ["5", 0, -1, True, 2.5, timedelta(seconds=5)],
    "requeue_delay": ["5", -1, True, float("nan")],
    "redelivery_deadline": NOT_SECONDS,
    "resend_deadline": [*NOT_SECONDS, 0],
    "flush_interval": [*NOT_SECONDS, 0],
    "store_retry_delay": NOT_SECONDS,
    "on_store_error": ["ajar", "", True, ["open"]],
    "steward": ["none", True, ""],
    "eager": ["yes", True, ""],
    "capture": ["all", True, ""],
    "redact": [5, [5], "", ["a*b"], ["*"], ["x"], ["__"], ["*_-"], ["two words"], ["x" * 101], ["ab"] * 201],
    "store": [5, ["memory://"]],
    "blobs": [5, ["/var/lib/replay"]],
    "blob_options": ["key", [("key", "secret")]],
    "detail_retention": NOT_SECONDS,
    "ledger": [5, ["redis://host/0"]],
    "journal": [5, ["django"]],
    "exclude": [5, [5], {"task": None}.values()],
    "message_lease": ["no", 0, "False"],
    "code_version": [5, 1.5],
    "app": [5, ["shop.celery"]],
    "spool_dir": [5, ["/var/spool"]],
    "trial_queue": [5, ["trials"]],
    "trial_kernel": ["yes", 1],
    "sandbox_database": ["default", {"default": "reader"}, [("default", {})]],
    "options": ["alias", [("alias", "replay")]],
}


def conf(*, celery=None, **settings):
    return {f"replay_{name}": value for name, value in settings.items()} | (celery or {})


def test_every_setting_is_checked():
    assert set(BAD) == set(Settings.__dataclass_fields__)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_bad_value_is_an_error_that_names_the_setting_and_what_it_may_be(name, value):
    with pytest.raises(ConfigurationError) as caught:
        load(conf(**{name: value}))

    message = str(caught.value)
    assert message.startswith(f"setting replay_{name} = ")
    assert "must be " in message


def test_without_settings_the_defaults_hold():
    settings = load(conf())

    assert (settings.lease_ttl, settings.retention, settings.poison_cap) == (60, 7 * 86_400, 5)
    assert (settings.eager, settings.steward, settings.on_store_error) == ("bypass", "embedded", None)


@pytest.mark.parametrize("name", ["lease_ttl", "retention", "resend_deadline", "flush_interval", "store_retry_delay"])
def test_a_duration_may_be_a_timedelta(name):
    settings = load(conf(**{name: timedelta(minutes=2)}))

    assert getattr(settings, name) == 120


def test_a_django_projects_settings_have_the_prefix_of_their_namespace():
    app = Celery("namespaced", set_as_current=False)
    app.config_from_object(
        SimpleNamespace(CELERY_REPLAY_STORE="memory://", CELERY_REPLAY_LEASE_TTL=7, REPLAY_RETENTION=5),
        namespace="CELERY",
    )

    settings = load(app.conf)

    assert (settings.store, settings.lease_ttl, settings.retention) == ("memory://", 7, 7 * 86_400)


def test_one_excluded_task_need_not_be_in_a_list():
    assert load(conf(exclude="shop.noise")).exclude == ("shop.noise",)


@pytest.mark.parametrize("names", ["iban", "*_number", "tax*", "*account*", "X-Internal-Key", "spring.auth", "größe"])
def test_one_secret_name_need_not_be_in_a_list(names):
    assert load(conf(redact=names)).redact == (names,)


def test_excluded_tasks_may_come_in_any_collection():
    assert sorted(load(conf(exclude={"shop.noise", "shop.hum*"})).exclude) == ["shop.hum*", "shop.noise"]


def test_the_code_version_comes_from_the_environment_unless_it_is_set(monkeypatch):
    monkeypatch.setenv("REPLAY_CODE_VERSION", "abc123")

    assert load(conf()).code == "abc123"
    assert load(conf(code_version="def456")).code == "def456"


def test_projects_on_one_machine_do_not_share_a_spool():
    shop = load(conf(celery={"broker_url": "redis://localhost/0"}))
    blog = load(conf(celery={"broker_url": "redis://localhost/1"}))

    assert shop.spool != blog.spool
    assert shop.spool == load(conf(celery={"broker_url": "redis://localhost/0"})).spool


def test_users_of_one_machine_do_not_share_a_spool(monkeypatch):
    mine = load(conf()).spool
    monkeypatch.setattr(os, "getuid", lambda: 12345)

    assert load(conf()).spool != mine


def test_the_spools_name_tells_nothing_of_the_brokers_password():
    assert "hunter2" not in load(conf(celery={"broker_url": "redis://:hunter2@localhost/0"})).spool


def test_a_spool_folder_of_ones_own_is_used_as_it_is(tmp_path):
    assert load(conf(spool_dir=str(tmp_path))).spool == str(tmp_path)
    assert load(conf(spool_dir=tmp_path)).spool == str(tmp_path)


@pytest.mark.parametrize(
    ("given", "mend"),
    [
        ({"store": "django", "ledger": "redis://host/0"}, "take replay_store off"),
        ({"store": "django", "journal": "django"}, "take replay_store off"),
        ({"journal": "django"}, "set replay_ledger to the URL of a Redis"),
        ({"journal": "django://records"}, "replay_store = 'django://records'"),
        ({"ledger": "django", "journal": "django"}, "set replay_store = 'django'"),
        ({"ledger": "memory://", "journal": "django"}, "the URL of a Redis"),
        ({"ledger": "redis://host/0", "journal": "redis://host/1"}, "must be django or django://alias"),
    ],
)
def test_places_that_contradict_one_another_are_an_error_that_says_how_to_mend_it(given, mend):
    with pytest.raises(ConfigurationError, match=re.escape(mend)):
        load(conf(**given))


def test_an_error_about_two_places_does_not_say_their_passwords():
    with pytest.raises(ConfigurationError) as caught:
        load(conf(ledger="redis://:secret@host/0", journal="redis://:secret@host/1"))
    assert "secret" not in str(caught.value)


def test_a_setting_that_is_none_of_ours_is_warned_of():
    app = Celery("shop", set_as_current=False)
    app.conf.update(replay_stroe="memory://", replay_leger="redis", replays="mine", replay_store="memory://")
    with pytest.warns(UserWarning, match="has no effect") as caught:
        load(app.conf)
    assert [str(one.message) for one in caught] == [
        "the setting replay_leger has no effect in this version: did you mean replay_ledger? [unknown-setting]",
        "the setting replay_stroe has no effect in this version: did you mean replay_store? [unknown-setting]",
    ]


def test_a_setting_of_a_django_project_is_warned_of_under_its_own_name():
    project = SimpleNamespace(CELERY_REPLAY_LEASE="5", CELERY_REPLAY_STORE="memory://", INSTANT_REPLAY_ON=True)
    app = Celery("shop", set_as_current=False)
    app.config_from_object(project, namespace="CELERY")
    with pytest.warns(UserWarning, match="the setting CELERY_REPLAY_LEASE has no effect") as caught:
        assert load(app.conf).store == "memory://"
    assert len(caught) == 1


def test_the_broker_that_the_environment_names_is_the_one_that_counts(monkeypatch):
    app = Celery("shop", broker="amqp://localhost", set_as_current=False)
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://localhost")

    assert config.redelivery_us(app.conf, load(app.conf)) == 4500 * SECOND


@pytest.mark.parametrize(
    ("url", "options", "seconds"),
    [
        ("redis://localhost", {}, 3600 + 900),
        # A hundred seconds: how often kombu looks for such messages, where nothing else is said.
        ("redis://localhost", {"visibility_timeout": 60}, 60 + 100 + 10),
        ("sentinel://localhost", {"visibility_timeout": 8}, 8 + 100 + 10),
        pytest.param(
            "redis://localhost",
            {"visibility_timeout": 60, "unacked_restore_interval": 2, "unacked_restore_throttle": 3},
            60 + 6 + 10,
            marks=needs("kombu", "5.7", "how often it looks can't be set"),
        ),
        ("sqs://", {}, 1800 + 450),
        ("amqp://localhost", {}, 300 + 75),
    ],
)
def test_a_dead_owners_message_is_waited_for_as_long_as_its_broker_may_take(url, options, seconds):
    configured = conf(celery={"broker_url": url, "broker_transport_options": options})

    assert config.redelivery_us(configured, load(configured)) == seconds * SECOND


def test_the_canvas_lease_outlasts_celerys_own_claim_on_a_chord():
    assert config.canvas_us(conf(), load(conf())) >= 30 * SECOND


def test_the_canvas_lease_grows_with_the_settings_that_prolong_that_claim():
    configured = conf(celery={"result_chord_join_timeout": 60})

    assert config.canvas_us(configured, load(configured)) >= 120 * SECOND


def test_the_canvas_lease_may_be_set():
    configured = conf(canvas_ttl=7)

    assert config.canvas_us(configured, load(configured)) == 7 * SECOND
