from __future__ import annotations

import os
import uuid
from datetime import datetime, timezone

import pytest

from celery_replay import clock


def test_ids_sort_by_the_time_at_which_they_were_minted():
    times = [1_700_000_000_000_000 + step * 1_000 for step in range(1_000)]

    ids = [clock.new_id(lambda now=now: now) for now in times]

    assert ids == sorted(ids)


def test_an_id_is_a_uuid_of_version_7_that_tells_its_time():
    now = 1_700_000_000_123_456

    minted = uuid.UUID(clock.new_id(lambda: now))

    assert (minted.version, minted.variant) == (7, uuid.RFC_4122)
    assert minted.int >> 80 == now // 1_000


def test_ids_of_one_microsecond_are_all_different():
    assert len({clock.new_id(lambda: 1) for _ in range(10_000)}) == 10_000


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_processes_forked_at_the_same_moment_mint_different_ids():
    readers = [_forked_ids() for _ in range(4)]

    ids = [line for reader in readers for line in _all_of(reader).split()]

    assert len(ids) == len(set(ids)) == 400


def _forked_ids() -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, " ".join(clock.new_id(lambda: 1) for _ in range(100)).encode())
        os._exit(0)
    os.close(writer)
    return pid, reader


def _all_of(child: tuple[int, int]) -> str:
    pid, reader = child
    with os.fdopen(reader) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text


def test_a_stored_time_is_shown_as_an_aware_datetime():
    assert clock.as_datetime(clock.micros(1.5)) == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=timezone.utc)


def test_durations_become_whole_microseconds():
    assert [clock.micros(0.1), clock.micros(60), clock.micros(0.000_000_4)] == [100_000, 60_000_000, 0]
