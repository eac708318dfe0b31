from __future__ import annotations

import time

import pytest

from celery_replay.redaction import REDACTED, is_secret, redact, redact_text


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "user_password_hash",
        "passwd",
        "passphrase",
        "Authorization",
        "authorisation",
        "X-Api-Key",
        "apikey",
        "api_key",
        "stripe_secret_key",
        "client_secret",
        "access_token",
        "csrftoken",
        "Set-Cookie",
        "sessionid",
        "session_id",
        "aws_access_key_id",
        "private_key",
        "db_credentials",
    ],
)
def test_a_name_that_says_secret_is_known(name):
    assert is_secret(name)


@pytest.mark.parametrize("name", ["order_id", "author", "key", "status", "path", "session", "passenger", "compass"])
def test_a_harmless_name_stays_harmless(name):
    assert not is_secret(name)


def test_secrets_are_replaced_at_any_depth_and_the_shape_stays():
    data = {"user": {"name": "ann", "password": "hunter2"}, "calls": [{"headers": {"Authorization": "x"}}, 5]}

    assert redact(data) == {
        "user": {"name": "ann", "password": REDACTED},
        "calls": [{"headers": {"Authorization": REDACTED}}, 5],
    }


def test_pairs_of_name_and_value_are_redacted_too():
    headers = [("Accept", "text/html"), ("X-Api-Key", "hunter2"), ["Cookie", ["a", "b"]]]

    assert redact(headers) == [["Accept", "text/html"], ["X-Api-Key", REDACTED], ["Cookie", REDACTED]]


def test_a_whole_structure_under_a_secret_name_is_replaced():
    assert redact({"credentials": {"user": "ann", "key": 5}}) == {"credentials": REDACTED}


def test_the_data_itself_is_not_touched():
    data = {"password": "hunter2", "deep": [{"token": "x"}]}

    redact(data)

    assert data == {"password": "hunter2", "deep": [{"token": "x"}]}


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("401 for Bearer eyJhbGciOi.J9", "eyJhbGciOi"),
        ("sent authorization: basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("can't connect to redis://:hunter2@cache:6379/0", "hunter2"),
        ("can't connect to postgres://ann:hun@ter2@db/shop", "ter2"),
        ("amqp://guest:hunter2@one// and amqp://guest:hunter3@two//", "hunter"),
        ("host=db password=hunter2 user=ann", "hunter2"),
        ("GET /pay?order=5&access_token=hunter2&x=1", "hunter2"),
        ("connect(host='db', password='hunter2')", "hunter2"),
    ],
)
def test_credentials_in_free_text_are_replaced(text, secret):
    shown = redact_text(text)

    assert secret not in shown
    assert REDACTED in shown


@pytest.mark.parametrize(
    "text",
    ["order 5 is not paid", "see https://example.org/a:b/c", "invalid token: unexpected end", "a bearer of news", ""],
)
def test_other_text_stays_as_it_is(text):
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text", ["=token" * 40_000, "=" + "a-" * 100_000, "://" * 60_000, "://a:" * 40_000, "basic " * 40_000]
)
def test_the_time_for_a_text_does_not_explode(text):
    started = time.process_time()

    redact_text(text)

    assert time.process_time() - started < 2
