"""Our log records never carry what a job was given, nor what an exception says of it."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import celery_replay
import django_celery_replay
from celery_replay import StoreUnavailable
from celery_replay.logs import logger_of
from celery_replay.tracebacks import raised_at

MARKER = "mArKeR-5309"


class OperationalError(Exception):
    """As database drivers have it."""


class NotNullViolation(Exception):
    """As database drivers have it."""


@pytest.fixture(autouse=True)
def every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """Lend what a plain handler writes."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    logging.getLogger().addHandler(handler)
    yield out
    logging.getLogger().removeHandler(handler)


def logged(error: BaseException) -> None:
    logger = logger_of("celery_replay.test_logs")
    try:
        raise error
    except BaseException:
        logger.warning("replay.something_failed", exc_info=True)


@pytest.mark.parametrize(
    "error",
    [
        ValueError(f"can't store {MARKER}"),
        KeyError(MARKER),
        NotNullViolation(f"null value\nDETAIL: Failing row contains ({MARKER})."),
        OperationalError(f"server closed the connection\nCONTEXT: {MARKER}"),
        StoreUnavailable(f"postgres://ann:{MARKER}@db is away"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_an_exception_says_of_data_is_not_logged(lines, error):
    logged(error)

    assert MARKER not in lines.getvalue()
    assert type(error).__name__ in lines.getvalue()
    assert "in logged" in lines.getvalue()


def test_the_messages_of_chained_exceptions_are_not_logged_either(lines):
    try:
        try:
            raise ValueError(MARKER)
        except ValueError as error:
            raise RuntimeError(MARKER) from error
    except RuntimeError as error:
        logged(error)

    assert MARKER not in lines.getvalue()
    assert "ValueError" in lines.getvalue()
    assert "direct cause" in lines.getvalue()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OperationalError("could not connect to server: Connection refused"), "Connection refused"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (StoreUnavailable("the store has no tables"), "the store has no tables"),
    ],
)
def test_what_an_operator_needs_to_know_of_a_server_or_a_disk_is_logged(lines, error, said):
    logged(error)

    assert said in lines.getvalue()


def test_nobody_finds_the_exception_on_the_record(caplog):
    logged(ValueError(MARKER))

    # Threads of earlier tests may still have something to say.
    (record,) = (one for one in caplog.records if one.name == "celery_replay.test_logs")
    assert record.exc_info is None
    assert MARKER not in str(vars(record))


def test_a_traceback_without_messages_tells_where_each_of_a_chain_was_raised():
    def inner():
        raise KeyError(MARKER)

    def outer():
        try:
            inner()
        except KeyError:
            raise LookupError(MARKER)  # noqa: B904 - as careless code does

    with pytest.raises(LookupError) as caught:
        outer()
    told = raised_at(caught.value)

    assert told.index("in inner") < told.index("builtins.KeyError") < told.index("During handling")
    assert told.index("During handling") < told.index("raise LookupError") < told.index("builtins.LookupError")
    assert MARKER not in told


def test_exceptions_that_cause_each_other_end():
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first

    assert raised_at(first).count("Traceback") == 2


SOURCES = [
    path for package in (celery_replay, django_celery_replay) for path in Path(package.__path__[0]).rglob("*.py")
]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: "/".join(path.parts[-2:]))
def test_whoever_logs_an_exception_does_so_without_what_it_says(path):
    source = path.read_text()
    if "exc_info=True" in source or "logger.exception" in source:
        assert "\nlogger = logger_of(__name__)\n" in source
