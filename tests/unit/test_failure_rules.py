"""What kind of failure an error is: told by the errors that libraries really raise."""

from __future__ import annotations

import errno
import socket
import ssl
import urllib.error
from datetime import datetime, timezone

import botocore.exceptions
import httpx
import kombu.exceptions
import pytest
import redis.exceptions
import requests
import urllib3.exceptions
from billiard.exceptions import SoftTimeLimitExceeded
from celery.exceptions import MaxRetriesExceededError
from django.core import exceptions as django_errors
from django.db import utils as database_errors

from celery_replay import Category, KeyConflict, UnknownOutcome, VersionConflict
from celery_replay.retries import FailurePolicy, Invalid, Permanent, Throttled, Transient, rule
from celery_replay.retries.http import retry_after_s


def judged(error: BaseException, *rules, made: int = 1):
    return FailurePolicy(rules=rules).judge(error, made)


def of_requests(status: int, **headers: str) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    response.headers.update(headers)
    return requests.HTTPError("answered", response=response)


def of_httpx(status: int, **headers: str) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "http://carrier/labels")
    return httpx.HTTPStatusError("answered", request=request, response=httpx.Response(status, headers=headers))


def of_urllib(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("http://carrier/labels", status, "answered", None, None)


def of_aws(status: int) -> botocore.exceptions.ClientError:
    told = {"Error": {"Code": "Slow"}, "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {}}}
    return botocore.exceptions.ClientError(told, "SendMessage")


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (Transient("later"), "transient"),
        (Throttled("slower"), "throttled"),
        (Invalid("no address"), "validation"),
        (Permanent("not paid"), "permanent"),
        (KeyConflict(), "validation"),
        (UnknownOutcome(), "unknown_outcome"),
        (VersionConflict(), "concurrency"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "dependency"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "transient"),
        (BrokenPipeError(errno.EPIPE, "broken"), "transient"),
        (OSError(errno.EHOSTUNREACH, "no route"), "dependency"),
        (OSError(errno.ENOSPC, "disk full"), "transient"),
        (OSError(errno.EACCES, "not yours"), "unclassified"),
        (socket.gaierror(-2, "unknown name"), "dependency"),
        (TimeoutError(), "transient"),
        (ssl.SSLEOFError(), "transient"),
        (SoftTimeLimitExceeded(), "transient"),
        (MaxRetriesExceededError(), "permanent"),
        (kombu.exceptions.OperationalError(), "dependency"),
        (redis.exceptions.ConnectionError(), "dependency"),
        (redis.exceptions.BusyLoadingError(), "dependency"),
        (redis.exceptions.ReadOnlyError(), "dependency"),
        (redis.exceptions.TimeoutError(), "transient"),
        (redis.exceptions.LockError(), "concurrency"),
        (redis.exceptions.AuthenticationError(), "dependency"),
        (requests.ConnectionError(), "dependency"),
        (requests.ConnectTimeout(), "transient"),
        (requests.ReadTimeout(), "transient"),
        (httpx.ConnectError("refused"), "dependency"),
        (httpx.ReadTimeout("slow"), "transient"),
        (httpx.RemoteProtocolError("broke off"), "transient"),
        (urllib3.exceptions.NewConnectionError(None, "refused"), "dependency"),
        (urllib.error.URLError("refused"), "dependency"),
        (django_errors.ValidationError("wrong"), "validation"),
        (database_errors.IntegrityError(), "validation"),
        (database_errors.OperationalError(), "dependency"),
        (ValueError("a bug"), "unclassified"),
        (KeyError("a bug"), "unclassified"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_usual_errors_have_their_category(error, category):
    assert judged(error).category == category


@pytest.mark.parametrize("of", [of_requests, of_httpx, of_urllib, of_aws])
@pytest.mark.parametrize(
    ("status", "category"),
    [
        (400, "validation"), (401, "permanent"), (404, "permanent"), (408, "transient"), (409, "concurrency"),
        (422, "validation"), (429, "throttled"), (500, "dependency"), (501, "permanent"), (503, "dependency"),
    ],
)  # fmt: skip
def test_an_answer_is_judged_by_its_status_in_every_library(of, status, category):
    found = judged(of(status))

    assert found.category == category
    assert found.because == f"has HTTP status {status}"


@pytest.mark.parametrize("of", [of_requests, of_httpx])
def test_retry_after_is_read_and_makes_a_503_a_throttling(of):
    found = judged(of(503, **{"retry-after": "120"}))

    assert (found.category, found.retry_after_s) == (Category.THROTTLED, 120)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "17"}, 17),
        ({"Retry-After": " 17 "}, 17),
        ({"Retry-After": "Tue, 01 Dec 2026 12:00:30 GMT", "Date": "Tue, 01 Dec 2026 12:00:00 GMT"}, 30),
        ({"Retry-After": "Tue, 01 Dec 2026 12:00:30 GMT"}, 20),
        ({"Retry-After": "Tue, 01 Dec 2026 11:00:00 GMT"}, 0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "1e9"}, None),
        ({"Retry-After": "٣"}, None),
        ({"Retry-After": "9" * 400}, 366 * 86_400),
        ({}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_by_the_senders_clock(headers, seconds):
    now = datetime(2026, 12, 1, 12, 0, 10, tzinfo=timezone.utc)

    assert retry_after_s(headers, now) == seconds


def test_the_tasks_own_rules_come_first():
    own = rule("permanent", requests.HTTPError, when=lambda error: error.response.status_code == 503)

    assert judged(of_requests(503), own).category is Category.PERMANENT
    assert judged(of_requests(502), own).category is Category.DEPENDENCY


def test_a_class_that_can_not_be_imported_is_known_by_its_name():
    error = type("CardDeclined", (Exception,), {"__module__": "acme.errors"})()

    found = judged(error, rule("permanent", "acme.errors.CardDeclined"))

    assert (found.category, found.because) == (Category.PERMANENT, "is a acme.errors.CardDeclined")


def test_a_subclass_is_of_its_base_classes_category():
    base = type("AcmeError", (Exception,), {"__module__": "acme.errors"})

    assert judged(type("Late", (base,), {})(), rule("transient", base)).category is Category.TRANSIENT


@pytest.mark.parametrize(("code", "category"), [(7, "transient"), (8, "transient"), (9, "unclassified")])
def test_a_rule_may_look_at_attributes(code, category):
    class ApiError(Exception):
        pass

    error = ApiError()
    error.code = code

    assert judged(error, rule("transient", ApiError, code=(7, 8))).category == category


def test_a_rule_that_fails_matches_nothing():
    assert judged(ValueError(), rule("transient", ValueError, when=lambda error: 1 / 0)).category == "unclassified"


def test_any_error_can_say_itself_what_it_is_and_how_long_to_wait():
    class Slower(Exception):
        replay_category = "throttled"
        retry_after_s = 9

    found = judged(Slower())

    assert (found.category, found.retry_after_s) == (Category.THROTTLED, 9)


def test_an_error_is_judged_by_its_cause_where_nothing_is_known_of_itself():
    class PaymentFailed(Exception):
        pass

    error = PaymentFailed()
    error.__cause__ = httpx.ConnectError("refused")

    found = judged(error)

    assert (found.category, found.because) == (Category.DEPENDENCY, "was caused by one that is a httpx.NetworkError")


def test_what_an_error_was_raised_in_the_handling_of_says_nothing():
    error = ValueError()
    error.__context__ = ConnectionRefusedError()

    assert judged(error).category is Category.UNCLASSIFIED


def test_causes_that_go_round_come_to_an_end():
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first

    assert judged(first).category is Category.UNCLASSIFIED


def test_a_row_that_is_missing_is_waited_for_once():
    missing = django_errors.ObjectDoesNotExist()

    assert judged(missing, made=1).category is Category.TRANSIENT
    assert judged(missing, made=2).category is Category.PERMANENT


@pytest.mark.parametrize("kinds", [(), ("acme.Late",)])
def test_a_rule_that_makes_no_sense_is_an_error_at_once(kinds):
    with pytest.raises(ValueError, match=r"needs a class|is not a valid Category"):
        rule("sometimes" if kinds else "transient", *kinds)
