"""Hostile and huge values come back as they were."""

from __future__ import annotations

import pytest
from django.db import connections
from hypothesis import given
from hypothesis import strategies as st

from celery_replay.states import AckMode, Outcome
from django_celery_replay.store import DjangoStore
from django_celery_replay.text import MARK, restored, stored, token
from tests.django_store.builders import ask, chunk, ending, step

HOSTILE = ["a\x00b", "\ud83d", "\udc00\ud800", "\ud83d\ude00", "␀:x", "␀:\\x00", "%s ? ' \" \\", "ключ 🔑"]


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_comes_back(text: str) -> None:
    kept = stored(text)
    assert "\x00" not in kept
    kept.encode()
    assert restored(kept) == text


def test_escaped_text_is_marked() -> None:
    assert stored("a\x00") == MARK + "a\\x00"


def test_long_tokens_differ_where_their_texts_differ() -> None:
    first, second = token("x" * 300 + "1"), token("x" * 300 + "2")
    assert len(first) == 255
    assert first != second
    assert token(first) == first
    hostile = token("\x00" * 300)
    assert token(restored(hostile)) == hostile


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_is_kept(store: DjangoStore, text: str) -> None:
    of = ask(f"s{text}", task_id=text, key=text, trace_id=text, worker=text)
    job = store.open(of).facts.job
    store.flush(chunks=[chunk(of, trace_id=text)])
    assert store.job(f"s{text}") == job
    store.claim_step(job, step(of, text, name=text), of.delivery)
    assert [s.key for s in store.steps(of.identity)] == [text]
    assert [j.task_id for j in store.find_jobs(key=text, task_id=text, trace_id=text)] == [text]
    assert len(store.chunks(text)) == 1
    store.close(job, ending(of, Outcome.FAILED, failure_json=text))
    found = store.job(f"s{text}")
    assert found is not None
    assert found.failure == text


def test_ten_megabytes_are_kept(store: DjangoStore) -> None:
    # MariaDB takes 16 MB by default, of what is escaped for the way.
    many = 500_000 if connections[store.alias].vendor == "mysql" else 5_000_000
    result = '"' + "ü\x00" * many + '"'
    of = ask("s", ack=AckMode.EARLY)
    job = store.open(of).facts.job
    store.flush(chunks=[chunk(of, body=b"\x00\xff" * many)])
    store.close(job, ending(of, result=result), [chunk(of, 3, blobs=(("b", b"\x00" * 2 * many),))])
    found = store.job("s")
    assert found is not None
    assert found.result == result
    assert len(store.chunks(of.trace_id)[0].body) == 2 * many
    assert store.blob("b") == b"\x00" * 2 * many


def test_a_very_long_step_key_is_told_from_its_neighbour(store: DjangoStore) -> None:
    of = ask("s")
    job = store.open(of).facts.job
    assert job is not None
    store.claim_step(job, step(of, "x" * 100_000 + "1"), of.delivery)
    assert store.claim_step(job, step(of, "x" * 100_000 + "2"), of.delivery) == (True, None)
    assert len(store.steps("s")) == 2
