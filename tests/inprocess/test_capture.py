"""How much of a job's data goes into its trace, level by level."""

from __future__ import annotations

import base64

import pytest

from celery_replay import record, step
from celery_replay.redaction import REDACTED
from celery_replay.serialization import unpack

MARKER = "mArKeR-5309"


def run(lab, function, *args, **options):
    """Run a job to its end; return the id."""
    task = lab.task(**options)(function)
    result = task.delay(*args)
    lab.error(result)
    lab.settled(result.id)
    return result.id


def written(lab, task_id):
    """Return what is written down of a job's story, and not to work with."""
    lab.idle()
    chunks = lab.store.chunks(lab.job(task_id).trace_id)
    blobs = [unpack(body) for chunk in chunks for _, body in chunk.blobs]
    letter = lab.letter(task_id)
    failure = (lab.job(task_id).failure, letter and (letter.error_message, letter.traceback))
    return str((lab.events(task_id), blobs, failure))


def attributes(lab, task_id, name):
    (event,) = [event for event in lab.events(task_id) if event.name == name]
    return event.attributes


@step(side_effect=True)
def charge(amount, card_token):
    return {"receipt": f"receipt for {amount}"}


def pay(order_id, note, password="x"):
    record("loaded", note=note, large=[note] * 500)
    return {"label": charge(5, "hunter2")["receipt"], "note": note}


def fail(order_id, note):
    record("loaded", note=note)
    raise ValueError(f"{note} is not paid")


def test_by_default_the_trace_has_names_and_types_of_arguments_and_what_was_recorded(lab):
    task_id = run(lab, pay, 7, MARKER, "hunter2")

    assert attributes(lab, task_id, "started")["argument_types"] == {
        "order_id": "int",
        "note": f"str[{len(MARKER)}]",
        "password": REDACTED,
    }
    assert attributes(lab, task_id, "loaded")["note"] == MARKER
    assert attributes(lab, task_id, "step_done").keys() == {"call_digest"}
    assert attributes(lab, task_id, "succeeded") == {}


def test_arguments_that_do_not_fit_are_described_too(lab):
    def narrow(order_id):
        return order_id

    task_id = run(lab, narrow, 7, "x", typing=False)

    assert attributes(lab, task_id, "started")["argument_types"] == {"order_id": "int", "*args": "list[1]"}


def test_a_job_without_arguments_says_nothing_of_them(lab):
    def bare():
        return None

    task_id = run(lab, bare)

    assert "argument_types" not in attributes(lab, task_id, "started")


@pytest.mark.parametrize("body", [pay, fail])
def test_at_none_nothing_that_the_job_says_is_written_down(lab, body):
    task_id = run(lab, body, 7, MARKER, capture="none")

    assert MARKER not in written(lab, task_id)
    assert "loaded" in lab.names(task_id)
    assert "argument_types" not in written(lab, task_id)


def test_at_none_a_failure_is_told_by_its_type_and_place(lab):
    task_id = run(lab, fail, 7, MARKER, capture="none")

    failed, letter = attributes(lab, task_id, "failed"), lab.letter(task_id)
    assert failed == {"error": "builtins.ValueError", "category": "unclassified"}
    assert (letter.error_type, letter.error_message) == ("builtins.ValueError", "")
    assert "in fail" in letter.traceback


def test_at_none_a_steps_failure_is_told_by_its_type(lab):
    @step
    def check(note):
        raise LookupError(note)

    def pay(note):
        check(note)

    task_id = run(lab, pay, MARKER, capture="none")

    assert attributes(lab, task_id, "step_failed") == {"error": "LookupError"}


def test_at_full_arguments_results_and_those_of_steps_are_in_the_trace_redacted(lab):
    task_id = run(lab, pay, 7, MARKER, "hunter2", capture="full")

    assert attributes(lab, task_id, "started")["arguments"] == {"order_id": 7, "note": MARKER, "password": REDACTED}
    assert attributes(lab, task_id, "started")["celery"]
    done = attributes(lab, task_id, "step_done")
    del done["call_digest"]
    assert done == {
        "arguments": {"amount": 5, "card_token": REDACTED},
        "result": {"receipt": "receipt for 5"},
    }
    assert attributes(lab, task_id, "succeeded")["result"] == {"label": "receipt for 5", "note": MARKER}
    assert "hunter2" not in written(lab, task_id)


def test_at_full_arguments_are_as_they_were_before_the_body(lab):
    def consume(lines):
        while lines:
            lines.pop()

    task_id = run(lab, consume, ["a", "b"], capture="full")

    assert attributes(lab, task_id, "started")["arguments"] == {"lines": ["a", "b"]}


def test_at_full_what_is_large_is_in_blobs_that_events_refer_to(lab):
    def double(rows):
        return rows * 2

    task_id = run(lab, double, ["x" * 3_000], capture="full")

    events = {event.name: event for event in lab.events(task_id)}
    assert unpack(lab.store.blob(events["started"].input_ref)) == {"rows": ["x" * 3_000]}
    assert unpack(lab.store.blob(events["succeeded"].output_ref)) == ["x" * 3_000] * 2


@pytest.mark.parametrize("level", ["none", "keys", "full"])
def test_what_is_needed_to_work_is_kept_at_every_level(lab, level):
    @lab.task(idempotency_key="pay:{order_id}", stepwise=True, capture=level)
    def keyed(order_id, note):
        return {"note": note, **charge(5, "x")}

    first, second = keyed.delay(1, MARKER), keyed.delay(1, MARKER)
    results = [lab.get(result) for result in (first, second)]
    # Either of them may have been the first.
    (kept,) = [step for result in (first, second) for step in lab.store.steps(lab.settled(result.id).identity)]

    assert results == [{"note": MARKER, "receipt": "receipt for 5"}] * 2
    assert unpack(b"j" + kept.output.encode()) == {"receipt": "receipt for 5"}

    failed = run(lab, fail, 7, MARKER, capture=level)
    assert MARKER in unpack_body(lab.letter(failed).message)


def test_the_setting_is_for_tasks_that_do_not_say(lab):
    lab.configure(capture="full")

    assert "arguments" in attributes(lab, run(lab, pay, 7, MARKER), "started")
    assert "arguments" not in attributes(lab, run(lab, pay, 7, MARKER, capture="keys"), "started")


def unpack_body(message):
    return base64.b64decode(unpack(message)["body"]).decode()
