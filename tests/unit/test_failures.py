from __future__ import annotations

import http.client
import json
import socket
import subprocess
import threading
from contextlib import contextmanager

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from celery.exceptions import Retry

from celery_replay.exceptions import RolledBack, UnknownOutcome
from celery_replay.failures import failure_json, failure_of, leaves_outcome_unknown
from celery_replay.redaction import REDACTED
from celery_replay.states import Category, Reason
from celery_replay.tracebacks import raised_at


class Hostile(Exception):
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(first)


def raised(error, *, cause=None):
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def test_a_failure_is_kept_as_text():
    failure = failure_of(raised(ValueError("order 5")))

    assert (failure.type, failure.message) == ("builtins.ValueError", "order 5")
    assert failure.traceback.startswith("Traceback")
    assert failure.traceback.rstrip().endswith("ValueError: order 5")
    assert (failure.category, failure.reason) == (Category.UNCLASSIFIED, Reason.EXCEPTION)


@pytest.mark.parametrize(
    "error", [Hostile(), TwoArguments(1, 2), KeyError("\ud800\x00"), Exception(b"\xff"), SystemExit(1)]
)
def test_no_exception_is_too_odd_to_be_described(error):
    failure = failure_of(raised(error))

    for text in (failure.type, failure.message, failure.traceback):
        assert "\x00" not in text
        text.encode()
    assert "raise error" in failure.traceback


def test_an_exception_without_text_is_named():
    assert failure_of(raised(Hostile())).message == "<Hostile that can't be shown: RuntimeError>"


def test_a_traceback_that_is_too_long_keeps_its_beginning_and_its_end():
    failure = failure_of(raised(ValueError("x" * 5_000_000 + " the end")))

    assert len(failure.traceback) <= 20_000
    assert failure.traceback.startswith("Traceback")
    assert failure.traceback.rstrip().endswith("the end")
    assert len(failure.message) == 4_000


def test_secrets_are_neither_in_the_message_nor_in_the_traceback():
    failure = failure_of(raised(ConnectionError("redis://:hunter2@cache refused Bearer abcdefghij")))

    assert "hunter2" not in failure.message + failure.traceback
    assert "abcdefghij" not in failure.message + failure.traceback


def test_a_traceback_has_the_functions_of_others_and_ours_only_where_they_raised():
    def step(error):
        raise TwoArguments(1, 2) from raised(TypeError())

    def task(error):
        raised_at(error, says=step)

    with pytest.raises(TwoArguments) as caught:
        raised_at(KeyError(), says=task)
    told = failure_of(caught.value).traceback
    assert [name in told for name in ("in task", "in step", "in raised", "in raised_at")] == [True, True, True, False]

    with pytest.raises(TypeError) as caught:
        raised_at(KeyError(), says=None)
    assert "in raised_at" in failure_of(caught.value).traceback


def test_a_traceback_shows_no_local_variables():
    def call():
        headers = {"Authorization": "hunter" + "2"}
        config = {"stripe_secret_key": "hunter" + "2"}
        raise ValueError(len(headers) + len(config))

    with pytest.raises(ValueError, match="2") as caught:
        call()

    assert "hunter2" not in failure_of(caught.value).traceback


def test_secrets_of_the_whole_chain_are_redacted():
    error = raised(ValueError("outer"), cause=raised(KeyError({"api_key": "hunter2"}), cause=OSError("token=hunter3")))

    failure = failure_of(error)

    assert "KeyError" in failure.traceback
    assert "OSError" in failure.traceback
    assert "hunter" not in failure.traceback


def test_values_that_are_known_to_be_secret_are_neither_in_the_message_nor_in_the_traceback():
    error = raised(ValueError("hunter2 is wrong"), cause=LookupError("no hunter2"))

    failure = failure_of(error, known=["hunter2"])

    assert failure.message == f"{REDACTED} is wrong"
    assert "hunter2" not in failure.traceback


def test_where_nothing_is_to_be_said_the_type_and_the_place_are_kept():
    failure = failure_of(raised(ValueError("ann has the flu"), cause=LookupError("ann")), says=False)

    assert (failure.type, failure.message) == ("builtins.ValueError", "")
    assert "in raised" in failure.traceback
    assert "builtins.LookupError\n" in failure.traceback
    assert failure.traceback.endswith("builtins.ValueError\n")
    assert "ann" not in failure.traceback


@pytest.mark.parametrize("where", [0, 3_990, 4_000, 200_000])
def test_a_secret_is_not_cut_in_two_and_shown_by_half(where):
    error = raised(ValueError("x" * where + " AKIAIOSFODNN7EXAMPLE " + "y" * 300_000 + " sk_live_4eC39HqLyjWDarjtT1z"))

    failure = failure_of(error)

    for text in (failure.message, failure.traceback):
        assert "AKIA" not in text
        assert "sk_live" not in text
    assert len(failure.message) == 4_000
    assert len(failure.traceback) <= 20_000


def test_a_rollback_that_nobody_raised_an_error_for_has_a_reason_of_its_own():
    assert failure_of(RolledBack()).reason is Reason.ROLLED_BACK
    assert failure_of(ValueError()).reason is Reason.EXCEPTION


def test_the_jobs_record_keeps_type_message_and_reason():
    assert json.loads(failure_json(failure_of(ValueError("order 5")))) == {
        "type": "builtins.ValueError",
        "message": "order 5",
        "reason": "exception",
    }


def library_error(*names):
    """Make an error like those of HTTP libraries: what counts are the names of its classes."""
    base = Exception
    for name in reversed(names):
        base = type(name, (base,), {})
    return base()


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError(),
        BrokenPipeError(),
        http.client.RemoteDisconnected(),
        http.client.IncompleteRead(b""),
        SoftTimeLimitExceeded(),
        SystemExit(0),
        KeyboardInterrupt(),
        UnknownOutcome(),
        subprocess.TimeoutExpired("pay", 5),
        library_error("ReadTimeout", "TimeoutException"),
        library_error("ReadTimeoutError", "HTTPError"),
        library_error("RemoteProtocolError"),
        raised(ValueError("no answer"), cause=TimeoutError()),
        ConnectionError(library_error("ProtocolError"), ConnectionResetError()),
    ],
    ids=repr,
)
def test_after_a_time_out_or_a_broken_connection_the_effect_may_have_happened(error):
    assert leaves_outcome_unknown(error)


def test_an_error_raised_while_a_time_out_was_handled_leaves_it_open():
    def charge():
        try:
            raise TimeoutError
        except TimeoutError:
            raise LookupError("no fallback")  # noqa: B904 - as careless code does

    with pytest.raises(LookupError) as caught:
        charge()

    assert leaves_outcome_unknown(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("declined"),
        ConnectionRefusedError(),
        Retry(),
        library_error("ConnectTimeout", "TimeoutException"),
        library_error("PoolTimeout", "TimeoutException"),
        library_error("HTTPStatusError", "HTTPError"),
        raised(ValueError("declined"), cause=KeyError("x")),
        ConnectionError(library_error("NewConnectionError", "ConnectTimeoutError")),
    ],
    ids=repr,
)
def test_after_an_error_answer_or_a_refused_connection_nothing_has_happened(error):
    assert not leaves_outcome_unknown(error)


def test_errors_that_cause_each_other_end():
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first

    assert not leaves_outcome_unknown(first)


def test_the_real_errors_of_requests_are_told_apart(counting_server):
    requests = pytest.importorskip("requests")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}/"
    counting_server.delay_s = 0.5

    with pytest.raises(requests.ConnectionError) as refused:
        requests.post(nobody, timeout=5)
    with pytest.raises(requests.Timeout) as timed_out:
        requests.post(f"{counting_server.url}/charges?reference=order:1", timeout=0.05)
    with _hangs_up() as url, pytest.raises(requests.ConnectionError) as aborted:
        requests.post(url, timeout=5)

    unknown = [leaves_outcome_unknown(caught.value) for caught in (refused, timed_out, aborted)]
    assert unknown == [False, True, True]


@contextmanager
def _hangs_up():
    def serve():
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        thread.join(5)
