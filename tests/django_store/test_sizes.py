"""However large what a job says is, its end is written down; its payload is kept whole."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial

from celery_replay.facts import Delivery
from celery_replay.failures import failure_json, failure_of
from celery_replay.serialization import result_json, result_value
from celery_replay.states import Outcome
from celery_replay.trace import Recorder, timeline
from django_celery_replay.store import DjangoStore
from tests.django_store.builders import ask, ending

HUGE = 5_000_000


def raised(depth: int, message: str) -> BaseException:
    """Return an error with so many frames, each with a long line of its own."""
    try:
        exec(f"def f(n):\n    {'x' * 500} = n\n    return f(n - 1) if n else boom\nf({depth})")  # noqa: S102
    except NameError as error:
        try:
            raise ValueError(message) from error
        except ValueError as caught:
            return caught
    raise AssertionError


def test_a_failure_of_any_size_and_its_whole_payload_are_kept(store: DjangoStore) -> None:
    payload = json.dumps([["x" * 300_000, 2**70], {}, {}]).encode()
    asked = ask()
    delivery = Delivery(
        submission=asked.delivery.submission, operation="shop.ship", generation=0, message=partial(bytes, payload)
    )
    job = store.open(asked).facts.job
    failure = failure_of(raised(900, "y" * HUGE))
    end = ending(asked, Outcome.FAILED, failure=failure, failure_json=failure_json(failure), delivery=delivery)
    accepted, _ = store.close(job, end)
    letter = store.letter(asked.delivery.submission)

    assert accepted
    assert letter is not None
    assert letter.message == payload
    assert (len(letter.error_message), letter.error_message[-6:]) == (4_000, "…[cut]")
    assert len(letter.traceback) <= 20_000
    assert "…[cut]…" in letter.traceback


def test_events_of_any_size_are_written_and_their_numbers_are_exact(store: DjangoStore) -> None:
    recorder = Recorder("trace", "nonce", {"job": "task"})
    for number in range(3):
        recorder.record("loaded", domain=True, attributes={"rows": [f"{number}" * 100] * 50_000, "text": "z" * HUGE})
    exact = {"cents": 2**70, "rate": 0.1, "many": {f"k{n}": 2**n for n in range(30)}}
    recorder.record("paid", domain=True, attributes=exact)
    store.flush(chunks=recorder.take())

    *loaded, paid = timeline(store, "trace")
    assert paid.attributes == exact
    for event in loaded:
        for value in event.attributes.values():
            assert value["cut"] is True
            assert len(store.blob(value["blob"]) or b"") == value["bytes"]


def test_a_large_result_with_exact_numbers_comes_back_as_it_was(store: DjangoStore) -> None:
    result = {"rows": ["x" * 1_000] * 300, "cents": 2**70, "total": Decimal("12345678901234567890.10")}
    asked = ask()
    job = store.open(asked).facts.job
    store.close(job, ending(asked, result=result_json(result)))

    kept = store.job(asked.delivery.submission)
    assert kept is not None
    assert result_value(kept.result or "") == result
