"""What comes through the result pipe is taken for data of somebody who may lie."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from celery_replay.sandbox import Blocked, Layers, Raised
from celery_replay.sandbox.answers import Answers, Teller
from celery_replay.sandbox.audit import DETAIL_LIMIT


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)
    os.close(writing)


def test_what_is_told_is_what_is_taken_in_byte_by_byte(pipe: tuple[int, int]) -> None:
    teller, answers = Teller(pipe[1]), Answers()
    told = Layers(seccomp=True, landlock=5, audit=True, reasons=("ö",))
    tried = Blocked(what="open", detail="/\ud800\n", step="s")
    teller.layers(told)
    teller.blocked(tried)
    teller.value({"a": "\n"})
    for byte in os.read(pipe[0], 10_000):
        answers.take(bytes([byte]))
    assert (answers.layers, answers.value, answers.ended, answers.unreadable) == (told, {"a": "\n"}, True, 0)
    assert answers.blocked == [Blocked(what="open", detail="/\ud800\n", step="s")]


def test_an_error_is_taken_in(pipe: tuple[int, int]) -> None:
    answers = Answers()
    raised = Raised(stage="body", type="a.B", message="m", traceback="t")
    Teller(pipe[1]).error(raised)
    answers.take(os.read(pipe[0], 10_000))
    assert (answers.error, answers.ended) == (raised, True)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"\xff",
        b"1",
        b"{}",
        b'{"layers": [1, 7, true, []]}',
        b'{"layers": null}',
        b'{"blocked": ["a", "b"]}',
        b'{"blocked": ["a", "b", 1]}',
        b'{"error": ["a"]}',
        b"[" * 200_000,
        b"9" * 10_000,
    ],
)
def test_what_is_no_answer_is_counted(line: bytes) -> None:
    answers = Answers()
    answers.take(line + b"\n")
    assert answers == Answers(unreadable=1, _size=len(line) + 1)


def test_nothing_is_taken_after_the_last_word_and_no_second_word_of_the_layers() -> None:
    answers = Answers()
    answers.take(b'{"layers": [false, 0, false, []]}\n{"layers": [true, 7, true, []]}\n{"value": 1}\n{"value": 2}\n')
    assert answers.layers == Layers()
    assert (answers.value, answers.unreadable) == (1, 1)


def test_an_attempt_is_told_in_one_piece_whatever_its_characters(pipe: tuple[int, int]) -> None:
    for character in ("\x00", "\U0001f600", '"', "\udc80"):
        text = character * DETAIL_LIMIT
        Teller(pipe[1]).blocked(Blocked(what="a" * 40, detail=text, step=text))
        sent = os.read(pipe[0], 100_000)
        assert len(sent) <= os.pathconf("/", "PC_PIPE_BUF")
        assert json.loads(sent)
