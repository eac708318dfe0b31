from __future__ import annotations

import os
import threading
import time

import pytest

from celery_replay.clock import SECOND
from celery_replay.heartbeat import Heartbeat
from celery_replay.records import Chunk, StepRecord
from celery_replay.states import StepState
from celery_replay.stores.base import Pulse


class Beat:
    """An attempt that remembers what the heartbeat does to it."""

    def __init__(self, nonce="n1", lease_s=60.0):
        self.nonce, self.lease_us = nonce, round(lease_s * SECOND)
        self.pulse = Pulse(submission=f"s-{nonce}", nonce=nonce, claim=None, lease_us=self.lease_us)
        self.chunks: list[Chunk] = []
        self.steps: list[StepRecord] = []
        self.calm = None
        self.renewals = 0
        self.losses = 0

    def take(self):
        chunks, self.chunks = self.chunks, []
        steps, self.steps = self.steps, []
        return chunks, steps

    def put_back(self, chunks, steps):
        self.chunks[:0] = chunks
        self.steps[:0] = steps

    def renewed(self):
        self.renewals += 1

    def lost(self):
        self.losses += 1


class Ledger:
    """A store that keeps what it is given, or is down."""

    def __init__(self):
        self.down = False
        self.lost: set[str] = set()
        self.advanced: list[str] = []
        self.chunks: list[Chunk] = []
        self.steps: list[StepRecord] = []
        self.flushes = 0
        self.renewals: list[list[str]] = []
        self.called = threading.Event()
        self.hold = threading.Event()
        self.hold.set()

    def flush(self, advanced, chunks, steps, calm):
        self.flushes += 1
        self.called.set()
        assert self.hold.wait(5)
        if self.down:
            raise ConnectionError("down")
        self.advanced += advanced
        self.chunks += chunks
        self.steps += steps

    def renew(self, pulses):
        if self.down:
            raise ConnectionError("down")
        self.renewals.append([pulse.nonce for pulse in pulses])
        return self.lost & {pulse.nonce for pulse in pulses}


def chunk(first=1, nonce="n1"):
    return Chunk(trace_id="t", nonce=nonce, first=first, count=1, body=b"j{}")


def a_step(key="k"):
    return StepRecord(scope="s", key=key, name="pay", state=StepState.SETTLED, nonce="n1")


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def heart(ledger):
    """A heartbeat whose own thread sleeps through the test: the test beats."""
    return Heartbeat(lambda: ledger, interval=3600)


def wait_for(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.002)


# Renewing


def test_a_lease_is_not_renewed_before_a_third_of_it_has_passed(heart, ledger):
    heart.add(Beat(lease_s=60))

    heart.beat()

    assert ledger.renewals == []


def test_a_lease_is_renewed_once_a_third_of_it_has_passed(heart, ledger):
    attempt = Beat(lease_s=0.03)
    heart.add(attempt)
    time.sleep(0.011)

    heart.beat()

    assert ledger.renewals == [["n1"]]
    assert (attempt.renewals, attempt.losses) == (1, 0)


def test_after_a_renewal_the_next_third_begins(heart, ledger):
    heart.add(Beat(lease_s=1.5))
    heart._due["n1"] = 0

    heart.beat()
    heart.beat()

    assert ledger.renewals == [["n1"]]


def test_all_that_are_due_are_renewed_in_one_call(heart, ledger):
    for nonce in ("n1", "n2", "n3"):
        heart.add(Beat(nonce))
        heart._due[nonce] = 0

    heart.beat()

    assert [sorted(nonces) for nonces in ledger.renewals] == [["n1", "n2", "n3"]]


def test_an_attempt_that_lost_its_job_is_told_once_and_left_alone(heart, ledger):
    attempt, other = Beat("n1"), Beat("n2")
    ledger.lost = {"n1"}
    for one in (attempt, other):
        heart.add(one)
        heart._due[one.nonce] = 0

    heart.beat()
    heart._due["n2"] = 0
    heart.beat()

    assert (attempt.losses, attempt.renewals) == (1, 0)
    assert (other.losses, other.renewals) == (0, 2)
    assert ledger.renewals[1] == ["n2"]


def test_an_attempt_that_was_removed_is_not_renewed(heart, ledger):
    attempt = Beat()
    heart.add(attempt)
    heart._due["n1"] = 0

    heart.remove(attempt)
    heart.beat()

    assert ledger.renewals == []


def test_a_lease_that_can_not_be_renewed_is_tried_again_with_the_next_beat(heart, ledger):
    attempt = Beat()
    heart.add(attempt)
    heart._due["n1"] = 0
    ledger.down = True

    assert heart.beat() is False
    ledger.down = False
    assert heart.beat() is True

    assert (attempt.renewals, attempt.losses) == (1, 0)


def test_leases_are_renewed_even_where_events_can_not_be_written(heart, ledger):
    attempt = Beat()
    attempt.chunks = [chunk()]
    heart.add(attempt)
    heart._due["n1"] = 0
    ledger.flush = lambda *_: (_ for _ in ()).throw(ConnectionError)

    assert heart.beat() is False

    assert attempt.renewals == 1


# Flushing


def test_everything_that_is_buffered_is_written_in_one_call(heart, ledger):
    attempt = Beat()
    attempt.chunks, attempt.steps = [chunk(1)], [a_step()]
    heart.add(attempt)
    heart.write([chunk(2, "n9")])
    heart.advanced("s9")

    heart.beat()

    assert ledger.flushes == 1
    assert (ledger.advanced, ledger.steps) == (["s9"], [a_step()])
    assert ledger.chunks == [chunk(2, "n9"), chunk(1)]


def test_where_nothing_is_buffered_the_store_is_left_alone(heart, ledger):
    heart.add(Beat())

    heart.beat()

    assert ledger.flushes == 0


def test_while_the_store_is_down_everything_is_kept_in_its_order(heart, ledger):
    attempt = Beat()
    attempt.chunks, attempt.steps = [chunk(1)], [a_step("a")]
    heart.add(attempt)
    heart.write([chunk(1, "n9")])
    heart.advanced("s1")
    ledger.down = True
    for _ in range(3):
        assert heart.beat() is False
    attempt.chunks.append(chunk(2))
    attempt.steps.append(a_step("b"))
    heart.write([chunk(2, "n9")])
    heart.advanced("s2")
    ledger.down = False

    heart.beat()

    assert ledger.advanced == ["s1", "s2"]
    assert ledger.chunks == [chunk(1, "n9"), chunk(2, "n9"), chunk(1), chunk(2)]
    assert [step.key for step in ledger.steps] == ["a", "b"]


def test_closing_waits_for_what_is_being_written_and_gets_it_back_if_that_fails(heart, ledger):
    attempt = Beat()
    attempt.chunks, attempt.steps = [chunk(1)], [a_step()]
    heart.add(attempt)
    ledger.down = True
    ledger.hold.clear()
    beating = threading.Thread(target=heart.beat)
    beating.start()
    assert ledger.called.wait(5)
    closing = threading.Thread(target=heart.remove, args=(attempt,))
    closing.start()
    closing.join(0.05)
    waited = closing.is_alive()

    ledger.hold.set()
    closing.join(5)
    beating.join(5)

    assert waited
    assert (attempt.chunks, attempt.steps) == ([chunk(1)], [a_step()])


def test_closing_does_not_wait_for_what_is_written_of_others(heart, ledger):
    attempt, late = Beat("n1"), Beat("n2")
    attempt.chunks = [chunk(1)]
    heart.add(attempt)
    ledger.hold.clear()
    beating = threading.Thread(target=heart.beat)
    beating.start()
    assert ledger.called.wait(5)
    heart.add(late)

    heart.remove(late)

    assert beating.is_alive()
    ledger.hold.set()
    beating.join(5)


# The thread


def test_no_thread_runs_before_there_is_something_to_do():
    before = threading.active_count()

    heart = Heartbeat(Ledger, interval=3600)

    assert heart._thread is None
    assert threading.active_count() == before


def test_the_first_attempt_starts_the_thread_and_it_beats_by_itself(ledger):
    heart = Heartbeat(lambda: ledger, interval=0.005)
    attempt = Beat(lease_s=0.03)
    attempt.chunks = [chunk()]

    heart.add(attempt)

    wait_for(lambda: attempt.renewals >= 2 and ledger.chunks)
    heart.remove(attempt)


def test_the_thread_rests_while_nothing_is_left_and_wakes_for_more(ledger):
    heart = Heartbeat(lambda: ledger, interval=0.005)
    heart.advanced("s1")
    wait_for(lambda: ledger.advanced == ["s1"] and not heart._wanted.is_set())

    heart.advanced("s2")

    wait_for(lambda: ledger.advanced == ["s1", "s2"])


def test_the_thread_outlives_a_store_that_is_down(ledger):
    heart = Heartbeat(lambda: ledger, interval=0.005)
    ledger.down = True
    heart.advanced("s1")
    wait_for(lambda: ledger.flushes >= 3)

    ledger.down = False

    wait_for(lambda: ledger.advanced == ["s1"])


def test_a_store_that_can_not_even_be_opened_does_not_end_the_thread(ledger):
    opened = []

    def open_store():
        opened.append(1)
        if len(opened) < 3:
            raise ConnectionError("down")
        return ledger

    heart = Heartbeat(open_store, interval=0.005)

    heart.advanced("s1")

    wait_for(lambda: ledger.advanced == ["s1"])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_after_a_fork_the_thread_starts_anew():
    reader, writer = os.pipe()
    heart = Heartbeat(Ledger, interval=0.005)
    heart.advanced("of the parent")
    pid = os.fork()
    if pid == 0:
        # As a runtime does it: the parent's heartbeat, with its locks, is left behind.
        fresh, ledger = None, Ledger()
        fresh = Heartbeat(lambda: ledger, interval=0.005)
        fresh.advanced("of the child")
        deadline = time.monotonic() + 5
        while not ledger.advanced and time.monotonic() < deadline:
            time.sleep(0.002)
        os.write(writer, ",".join(ledger.advanced).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)

    with os.fdopen(reader) as file:
        assert file.read() == "of the child"


def test_draining_writes_what_is_left(heart, ledger):
    attempt = Beat()
    attempt.chunks = [chunk()]
    heart.add(attempt)
    heart.advanced("s1")

    heart.drain()

    assert (ledger.advanced, ledger.chunks) == (["s1"], [chunk()])


def test_draining_where_nothing_is_left_does_not_open_a_store():
    def never():
        raise AssertionError("opened")

    heart = Heartbeat(never, interval=3600)

    heart.drain()

    assert heart._thread is None


def test_draining_while_the_store_is_down_does_not_raise(heart, ledger):
    ledger.down = True
    heart.advanced("s1")

    heart.drain()

    assert heart._advanced == ["s1"]
