"""`manage.py celery_replay`: the same commands, for the project's own app."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from celery import Celery, _state
from django.conf import LazySettings
from django.core.management import ManagementUtility

from celery_replay import ReplayTask
from celery_replay.runtime import reset, use_store
from django_celery_replay.store import DjangoStore
from tests.django_store.builders import ask

HERE = f"{__name__}:app"
app = Celery("shop", task_cls=ReplayTask, set_as_current=False, broker="memory://")
app.conf.update(replay_store="django")

Manage = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def manage(store: DjangoStore, capsys: pytest.CaptureFixture[str]) -> Iterator[Manage]:
    def run(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            ManagementUtility(["manage.py", "celery_replay", *line.split()]).execute()
        shown = capsys.readouterr()
        code = end.value.code
        assert isinstance(code, int)
        return code, shown.out, shown.err

    use_store(app, store)
    yield run
    reset(app)


def test_the_app_is_the_one_that_the_setting_names(manage: Manage, store: DjangoStore, settings: LazySettings) -> None:
    settings.CELERY_REPLAY_APP = HERE
    store.open(ask("s"))
    code, out, _ = manage("trace list --json")
    assert (code, json.loads(out)["id"]) == (0, "s")


def test_the_app_is_the_one_that_the_command_line_names(manage: Manage, store: DjangoStore) -> None:
    store.lead("steward-1", 60_000_000)
    code, out, _ = manage(f"-A {HERE} status --settings=tests.django_settings")
    assert code == 0
    assert store.place in out


def test_the_app_is_else_the_one_that_the_project_loads(manage: Manage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_state, "default_app", app)
    assert manage("dlq list")[::2] == (1, "nothing found\n")


def test_without_an_app_it_says_how_to_name_one(manage: Manage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_state, "default_app", None)
    code, _, err = manage("status")
    assert code == 2
    assert "CELERY_REPLAY_APP" in err


def test_an_app_that_can_not_be_loaded_is_named(manage: Manage) -> None:
    code, _, err = manage("-A tests.no_such_module:app status")
    assert code == 2
    assert "'tests.no_such_module:app' can't be loaded" in err


def test_its_help_has_the_commands_and_says_where_the_app_comes_from(manage: Manage) -> None:
    code, out, _ = manage("--help")
    assert code == 0
    assert {"status", "dlq", "jobs", "parked", "trace", "CELERY_REPLAY_APP"} <= set(out.replace(",", " ").split())
    assert "manage.py celery_replay -A shop.celery:app dlq list" in out
