"""A secret that a job has in all places is in none of our logs, our traces, or our commands' output."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from celery_replay import record, step
from celery_replay.cli import replay
from celery_replay.redaction import REDACTED
from celery_replay.serialization import unpack
from celery_replay.steward import Steward
from celery_replay.stores.memory import MemoryStore

MARKER = "mArKeR-5309"
OURS = ("celery_replay", "django_celery_replay")
LEVELS = ["none", "keys", "full"]


class Handler(logging.Handler):
    """Writes our records down as a project's handlers might: formatted, and with all their fields."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.out = io.StringIO()

    def emit(self, record: logging.LogRecord) -> None:
        self.out.write(f"{self.format(record)} {vars(record)}\n")


@pytest.fixture
def logs() -> Iterator[io.StringIO]:
    """Lend all that our loggers say, whatever the level."""
    handler = Handler()
    for name in OURS:
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield handler.out
    for name in OURS:
        logging.getLogger(name).removeHandler(handler)
        logging.getLogger(name).setLevel(logging.NOTSET)


class Failing(MemoryStore):
    """Refuses what it is told as databases do: with the data in the message."""

    down = False

    def close(self, job, ending, chunks=()):
        if self.down:
            raise ValueError(f"null value\nDETAIL: Failing row contains ({ending.result}, {MARKER})")
        return super().close(job, ending, chunks)

    def flush(self, *args, **kwargs):
        if self.down:
            raise ValueError(f"Failing row contains ({MARKER})")
        return super().flush(*args, **kwargs)

    def lead(self, *args):
        raise RuntimeError(MARKER)


@step
def sign_in(user, password):
    raise LookupError(f"{user} can't sign in with {password}")


@step(side_effect=True)
def call(url, headers):
    return {"session_id": MARKER, "url": url}


def bodies():
    """Return bodies that fail, each with its secrets elsewhere."""

    def says_it(order_id, password, options):
        raise ValueError(f"refused: {password!r} of {order_id}")

    def chained(order_id, password, options):
        try:
            raise KeyError({"api_key": options["api_key"]})
        except KeyError as error:
            raise ConnectionError(f"redis://:{password}@cache is away") from error

    def records_it(order_id, password, options):
        record("asked", url=f"https://shop/?token={password}", note=f"it was {password}", options=options)
        record("answered", raw=f"Set-Cookie: id={password}".encode(), error=ValueError(password), rows=[password] * 500)
        call(f"https://ann:{password}@bank", {"Authorization": f"Bearer {password}"})
        raise ValueError("no")

    def in_a_step(order_id, password, options):
        sign_in("ann", password)

    def in_its_frames(order_id, password, options):
        headers = {"Authorization": password}
        raise ValueError(len(headers))

    return [says_it, chained, records_it, in_a_step, in_its_frames]


def stored(lab, task_id):
    """Return what is written down, and not to work with."""
    lab.idle()
    job, letter = lab.job(task_id), lab.letter(task_id)
    chunks = lab.store.chunks(job.trace_id)
    blobs = [unpack(body) for chunk in chunks for _, body in chunk.blobs]
    attempts = lab.store.attempts(job.submission)
    return str((lab.events(task_id), blobs, attempts, job.failure, letter.error_message, letter.traceback))


def output(lab, task_id):
    """Return what all commands that know of a job print, for people and for machines."""
    submission = lab.job(task_id).submission
    lines = [f"trace show {submission}", f"jobs show {submission}", f"dlq show {submission}"]
    lines += ["trace list", "dlq list", "parked list", f"jobs find --task-id {task_id}", "status"]
    printed = []
    for line in lines:
        for form in ("", " --json"):
            result = CliRunner().invoke(replay, (line + form).split(), obj=SimpleNamespace(app=lab.app))
            assert result.exception is None or isinstance(result.exception, SystemExit)
            printed.append(result.output)
    return "\n".join(printed)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("body", bodies(), ids=lambda body: body.__name__)
@pytest.mark.parametrize("by_position", [True, False], ids=["by position", "by name"])
def test_a_failing_jobs_secret_is_nowhere_to_be_read(lab, logs, level, body, by_position):
    task = lab.task(capture=level)(body)
    options = {"api_key": MARKER, "rows": [{"name": "PIN", "value": MARKER}]}
    given = ((5, MARKER, options), {}) if by_position else ((5,), {"password": MARKER, "options": options})
    result = task.apply_async(*given, headers={"x-auth-token": MARKER, "note": {"cookie": MARKER}})
    lab.error(result)
    lab.settled(result.id)

    assert MARKER not in stored(lab, result.id)
    assert MARKER not in output(lab, result.id)
    assert MARKER not in logs.getvalue()


def test_the_message_is_kept_as_it_was_to_be_sent_again_and_shown_redacted(lab):
    def pay(order_id, password):
        raise ValueError("no")

    task = lab.task()(pay)
    result = task.apply_async((5, MARKER), link=task.s(MARKER), headers={"x-auth-token": MARKER})
    lab.error(result)
    lab.settled(result.id)

    kept = unpack(lab.letter(result.id).message)
    assert kept["headers"]["x-auth-token"] == MARKER
    assert MARKER in kept["headers"]["argsrepr"]
    shown = output(lab, result.id)
    assert MARKER not in shown
    _, letter = (json.loads(line) for line in shown.splitlines() if '"payload": {' in line)
    assert letter["payload"]["arguments"] == {"order_id": 5, "password": REDACTED}
    assert letter["payload"]["headers"]["x-auth-token"] == REDACTED
    assert "argsrepr" not in str(letter["payload"])


@pytest.mark.parametrize("level", LEVELS)
def test_a_result_that_is_secret_is_shown_redacted(lab, logs, level):
    @lab.task(capture=level)
    def pay(order_id):
        return {"order": order_id, "api_key": MARKER, "session": {"cookies": [MARKER]}}

    result = pay.delay(5)
    assert lab.get(result)["api_key"] == MARKER
    lab.settled(result.id)

    assert MARKER not in output(lab, result.id)
    assert MARKER not in str(lab.events(result.id))
    assert MARKER not in logs.getvalue()


def test_what_goes_wrong_around_a_job_is_logged_without_its_data(lab, logs):
    store = lab.use(Failing(lab.clock))
    count = iter(range(100))

    @lab.task(idempotency_key=lambda order, password: f"{order['id']}:{password}:{next(count)}")
    def unstable(order, password):
        return MARKER

    @lab.task(idempotency_key=lambda order: order[MARKER])
    def keyless(order):
        return MARKER

    @lab.task()
    def refused(order):
        store.down = True
        return MARKER

    lab.error(unstable.delay({"id": 1}, MARKER))
    lab.error(keyless.delay({"id": 1}))
    assert lab.get(refused.delay({"note": MARKER})) == MARKER
    lab.wait(lambda: list(lab.runtime.spool.waiting()))
    steward = Steward(lab.runtime)
    steward.round()
    store.down = False
    steward.round()

    said = logs.getvalue()
    for event in ("unstable_key", "observer_failed", "close_failed", "steward_failed"):
        assert f"replay.{event}" in said
    assert MARKER not in said


def test_a_file_of_the_spool_that_can_not_be_read_is_logged_without_its_content(lab, logs, tmp_path):
    lab.configure(spool_dir=str(tmp_path))
    (tmp_path / "a.json").write_text(json.dumps({"ending": {MARKER: MARKER}}))

    assert list(lab.runtime.spool.waiting()) == []

    assert "replay.spool_unreadable" in logs.getvalue()
    assert MARKER not in logs.getvalue()
