"""A secret that a job has in all places is on none of the pages; what it was given is only for those who may see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery

from celery_replay import record, step
from celery_replay.runtime import runtime_of, use_store
from django_celery_replay import ReplayTask
from django_celery_replay.store import DjangoStore
from tests.django_admin import visitors
from tests.django_admin.builders import letter, message, row
from tests.django_admin.conftest import Page, Put
from tests.django_admin.markup import text_of

MARKER = "mArKeR-5309"
NOTE = "nOtE-7"


@pytest.fixture
def app(store: DjangoStore) -> Iterator[Celery]:
    with Celery(task_cls=ReplayTask, set_as_current=False) as app:
        app.conf.update(replay_store=f"django://{store.alias}", replay_eager="record", task_always_eager=True)
        use_store(app, store)
        yield app


@step
def sign_in(user: str, password: str) -> str:
    return f"{user} has {password}"


def pay(order_id: int, password: str, options: dict[str, Any], note: str) -> dict[str, Any]:
    record("asked", url=f"https://shop/?token={password}", note=f"it was {password}", options=options)
    sign_in("ann", password)
    if options.get("fails"):
        raise ValueError(f"{password!r} was refused")
    return {"api_key": password, "note": note}


def run(app: Celery, **options: Any) -> Any:
    task = app.task(pay, name=f"shop.pay{len(app.tasks)}", shared=False, **options)
    fails = {"api_key": MARKER, "fails": options.pop("fails", False)}
    task.apply((5, MARKER), {"options": fails, "note": NOTE}, headers={"x-auth-token": MARKER})
    runtime_of(app).heartbeat.drain()
    (job,) = runtime_of(app).store.find_jobs(operation=task.name)
    return job


@pytest.mark.parametrize("level", ["none", "keys", "full"])
@pytest.mark.parametrize("fails", [True, False], ids=["fails", "succeeds"])
def test_a_jobs_secret_is_on_no_page(app: Celery, page: Page, level: str, fails: bool) -> None:
    job = run(app, capture=level, fails=fails)
    paths = ["processedjob/", f"processedjob/{job.submission}/change/"]
    if fails:
        paths += ["deadletter/", f"deadletter/{job.submission}/change/", "lettergroup/"]
    for path in paths:
        html = page(path)
        assert job.operation in html
        assert MARKER not in html


def test_a_secret_of_a_kept_message_is_on_no_page(put: Put, page: Page) -> None:
    kept = message(
        [1, MARKER],
        {"api_key": MARKER, "note": f"redis://:{MARKER}@cache"},
        headers={"argsrepr": MARKER, "headers": {"kwargsrepr": MARKER}, "x-auth-token": MARKER},
        task={"parameters": [["n", "POSITIONAL_OR_KEYWORD", False], ["password", "POSITIONAL_OR_KEYWORD", False]]},
    )
    put(letter(message=kept), row(message=kept))
    for path in ("deadletter/", "deadletter/s/change/", "parkedjob/", "parkedjob/s/change/"):
        assert MARKER not in page(path)
    assert '"password": "[redacted]"' in text_of(page("parkedjob/s/change/"))


def test_what_a_job_was_given_and_gave_is_for_those_who_may_see_payloads(app: Celery, page: Page) -> None:
    job = run(app, capture="full")
    path = f"processedjob/{job.submission}/change/"
    assert text_of(page(path)).count(NOTE) == 3

    visitors.welcome(visitors.READS)

    text = text_of(page(path))
    assert NOTE not in text
    assert "it was [redacted]" in text


@pytest.mark.usefixtures("unlearned")
def test_a_project_names_secrets_of_its_own(put: Put, page: Page, settings: Any) -> None:
    settings.CELERY_REPLAY_REDACT = ["iban"]
    put(letter(message=message([], {"iban": MARKER}), error_message=f"iban={MARKER}"))
    for path in ("deadletter/", "deadletter/s/change/"):
        assert MARKER not in page(path)
