from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

import pytest

from celery_replay.losses import News
from celery_replay.news import Pipe, read
from celery_replay.states import Reason

NEWS = News(submission="s1", generation=2, worker="w@host", pid=7, reason=Reason.WORKER_LOST, final=True)


@pytest.fixture
def pipe():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield reader, Pipe(writer)
    for descriptor in (reader, writer):
        with suppress(OSError):
            os.close(descriptor)


def test_news_come_out_as_they_went_in(pipe):
    reader, sender = pipe

    sender.hear(NEWS)

    assert list(read(os.read(reader, 65536))) == [NEWS]


def test_several_items_stay_apart(pipe):
    reader, sender = pipe
    others = [replace(NEWS, submission=f"s{number}", generation=number, final=False) for number in range(5)]

    for item in others:
        sender.hear(item)

    assert list(read(os.read(reader, 65536))) == others


def test_a_full_pipe_neither_blocks_nor_raises_and_the_loss_is_counted(pipe):
    reader, sender = pipe
    for _ in range(2_000):
        sender.hear(NEWS)

    arrived = b""
    with suppress(BlockingIOError):
        while True:
            arrived += os.read(reader, 65536)

    assert sender.dropped > 0
    assert len(list(read(arrived))) + sender.dropped == 2_000


def test_a_steward_that_is_gone_does_not_hurt(pipe):
    reader, sender = pipe
    os.close(reader)

    sender.hear(NEWS)

    assert sender.dropped == 1


def test_what_a_pipe_would_not_take_whole_is_left_out(pipe):
    reader, sender = pipe

    sender.hear(replace(NEWS, key="ü" * 5_000))
    sender.hear(replace(NEWS, key="ü" * 500))

    assert [item.key for item in read(os.read(reader, 65536))] == ["ü" * 500]
    assert sender.dropped == 1


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b"5", b"null", b'{"reason": "revoked"}', b'{"reason": "vanished"}', b"\xff\xfe", b'"text"'],
)
def test_a_line_that_is_no_news_is_skipped(pipe, line):
    reader, sender = pipe
    os.write(sender.descriptor, line + b"\n")
    sender.hear(NEWS)

    assert list(read(os.read(reader, 65536))) == [NEWS]
