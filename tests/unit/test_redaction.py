from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from celery_replay.redaction import REDACTED, is_secret, kept_text, learn, redact, redact_text, secrets_in


class Hostile:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


class Items(Mapping):
    def __getitem__(self, key):
        raise RuntimeError("no")

    __iter__ = __getitem__

    def __len__(self):
        return 1


# Names


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "PASSWORD",
        "user_password_hash",
        "passwd",
        "passphrase",
        "pwd",
        "MYSQL_PWD",
        "userPwd",
        "Authorization",
        "authorisation",
        "Proxy-Authorization",
        "X-Api-Key",
        "apikey",
        "apiKey",
        "api_key",
        "stripe_secret_key",
        "webhook-secret-key",
        "client_secret",
        "access_token",
        "refresh-token",
        "X-Amz-Security-Token",
        "csrftoken",
        "X-XSRF",
        "Cookie",
        "Set-Cookie",
        "PHPSESSID",
        "sessionid",
        "session_id",
        "sessionKey",
        "aws_access_key_id",
        "private_key",
        "signingKey",
        "db_credentials",
        "auth",
        "basic_auth",
        "basicAuth",
        "card-cvc",
        "pin",
        "X-Amz-Signature",
        "X-Hub-Signature-256",
        "user[password]",
        "spring.datasource.password",
        "jwt",
        "db_pass",
    ],
)
def test_a_name_that_says_secret_is_known(name):
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "order_id", "author", "authors", "key", "status", "path", "session", "passenger", "compass", "bypass_reason",
        "shipping", "pin_code_length", "design", "signature_date", "primary_key", "idempotency_key", "routing_key",
        "auth_method", "passed", "keys", "",
    ],
)  # fmt: skip
def test_a_harmless_name_stays_harmless(name):
    assert not is_secret(name)


def test_a_name_of_any_length_is_known_by_its_beginning_and_its_end():
    assert is_secret("x" * 100_000 + "_password")
    assert is_secret("password_" + "x" * 100_000)
    assert not is_secret("x" * 100_000)


@pytest.mark.parametrize(
    ("pattern", "known", "other"),
    [
        ("iban", ["iban", "IBAN"], ["iban_country", "my_iban"]),
        ("*_number", ["card_number", "cardNumber", "Card-Number"], ["number", "card_number_length"]),
        ("tax*", ["tax", "tax_id", "TaxId"], ["syntax"]),
        ("*diagnosis*", ["diagnosis", "first_diagnosis_code"], ["diagnostics"]),
        ("birth-date", ["birth_date", "birthDate", "Birth-Date"], ["birthdate"]),
        ("a.b", ["a.b", "a_b"], ["axb"]),
    ],
)
@pytest.mark.usefixtures("unlearned")
def test_a_project_may_name_more_secrets(pattern, known, other):
    assert not any(map(is_secret, known))

    learn([pattern])

    assert all(map(is_secret, known))
    assert not any(map(is_secret, other))
    assert is_secret("password")


@pytest.mark.usefixtures("unlearned")
def test_what_a_project_names_is_secret_in_text_too_and_stays_so_when_more_is_named():
    learn(["iban"])
    learn(["*_number"])

    text = "iban=DE02 and {'card_number': 4242} were refused"
    assert redact_text(text) == f"iban={REDACTED} and {{'card_number': {REDACTED}}} were refused"
    assert redact({"iban": "DE02", "card_number": 4242}) == {"iban": REDACTED, "card_number": REDACTED}


# Data


def test_secrets_are_replaced_at_any_depth_and_the_shape_stays():
    data = {"user": {"name": "ann", "password": "hunter2"}, "calls": [{"headers": {"Authorization": "x"}}, 5]}

    assert redact(data) == {
        "user": {"name": "ann", "password": REDACTED},
        "calls": [{"headers": {"Authorization": REDACTED}}, 5],
    }


def test_pairs_of_name_and_value_are_redacted_too():
    headers = [("Accept", "text/html"), ("X-Api-Key", "hunter2"), ["Cookie", ["a", "b"]], (b"cookie", b"hunter2")]

    assert redact(headers) == [
        ["Accept", "text/html"],
        ["X-Api-Key", REDACTED],
        ["Cookie", REDACTED],
        [b"cookie", REDACTED],
    ]


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ([{"name": "DB_PASSWORD", "value": "hunter2"}], [{"name": "DB_PASSWORD", "value": REDACTED}]),
        ([{"Key": "api_key", "Value": "hunter2"}], [{"Key": "api_key", "Value": REDACTED}]),
        ([{"name": "ann", "value": 5}], [{"name": "ann", "value": 5}]),
        (namedtuple("Login", "user password")("ann", "hunter2"), ["ann", REDACTED]),
        (MappingProxyType({"password": "hunter2", "user": "ann"}), {"password": REDACTED, "user": "ann"}),
        ({b"password": "hunter2"}, {b"password": REDACTED}),
        ({"pin": 1234, "card": {"cvv": 123}}, {"pin": REDACTED, "card": {"cvv": REDACTED}}),
        (b"password=hunter2", b"password=[redacted]"),
        ({"https://ann:hunter2@shop": 1}, {f"https://ann:{REDACTED}@shop": 1}),
    ],
)
def test_names_are_found_wherever_data_has_them(data, shown):
    assert redact(data) == shown


def test_a_whole_structure_under_a_secret_name_is_replaced():
    assert redact({"credentials": {"user": "ann", "key": 5}}) == {"credentials": REDACTED}


def test_the_data_itself_is_not_touched():
    data = {"password": "hunter2", "deep": [{"token": "x"}]}

    redact(data)

    assert data == {"password": "hunter2", "deep": [{"token": "x"}]}


def test_values_that_are_known_to_be_secret_are_found_under_any_name():
    known = secrets_in({"password": "hunter2!"})

    assert redact({"note": "ann said hunter2!", "n": ["hunter2!"]}, known=known) == {
        "note": f"ann said {REDACTED}",
        "n": [REDACTED],
    }


@pytest.mark.parametrize("value", [Items(), [Items()], {"a": Items()}, {Hostile(): 1}, Hostile(), [Hostile()]])
def test_no_object_is_too_odd(value):
    redact(value)


def test_data_that_is_monstrous_comes_to_an_end():
    loop: list[object] = []
    loop.append(loop)
    doubled: list[object] = []
    for _ in range(64):
        doubled = [doubled, doubled]
    deep: list[object] = ["hunter2"]
    for _ in range(100_000):
        deep = [deep]

    for data in (loop, doubled, deep):
        assert "…[cut]" in str(redact(data))


# Values that are known


@pytest.mark.parametrize(
    ("data", "known"),
    [
        ({"password": "hunter2"}, {"hunter2"}),
        ({"credentials": {"user": "ann.smith", "keys": ["abcdef", "x"]}}, {"ann.smith", "abcdef"}),
        ([("X-Api-Key", b"hunter2")], {"hunter2"}),
        ({"pin": 123456, "cvv": 123}, {"123456"}),
        ({"note": "hunter2"}, set()),
        ({"token": None, "password": True, "secret": 1.5}, set()),
        ({"password": "a'b\"c\\d"}, {"a'b\"c\\d", "a'b\\\"c\\\\d", "a\\'b\"c\\\\d", "a%27b%22c%5Cd"}),
        ({"password": "two words"}, {"two words", "two%20words", "two+words"}),
    ],
)
def test_secret_values_are_known_in_all_ways_in_which_messages_write_them(data, known):
    assert set(secrets_in(data)) == known


def test_what_is_known_is_bounded_and_what_is_odd_is_left_out():
    assert secrets_in(Items(), {"password": Hostile()}) == ()
    assert len(secrets_in({"tokens": [f"token-{n}" for n in range(1_000)]})) <= 60


# Text


@pytest.mark.parametrize(
    "text",
    [
        "401 for Bearer hunter2.J9",
        "sent authorization: basic aHVudGVyMjpwYXNz hunter2",
        "can't connect to redis://:hunter2@cache:6379/0",
        "can't connect to postgres://ann:hun@hunter2@db/shop",
        "amqp://guest:hunter2@one// and amqp://guest:hunter2@two//",
        "host=db password=hunter2 user=ann",
        "GET /pay?order=5&access_token=hunter2&x=1",
        "https://bucket/x?X-Amz-Signature=hunter2&sig=hunter2",
        "connect(host='db', password='hunter2')",
        'connect(password="it\'s hunter2")',
        r"connect(password='it\'s hunter2')",
        "{'Authorization': 'hunter2', 'api_key': b'hunter2'}",
        '{"api_key": "hunter2", "pin": "hunter2"}',
        r"{\"password\": \"a \\\"hunter2\\\" b\"}",
        "credentials={'user': 'ann', 'key': ['hunter2']}",
        "headers: [('authorization', 'hunter2'), (b'cookie', b'hunter2')]",
        "X-Api-Key: hunter2\r\nHost: shop",
        "Cookie: a=hunter2; b=hunter2",
        "curl -H 'Authorization: hunter2 hunter2' shop",
        "Command '['mysql', '--password', 'hunter2']' failed",
        "mysql --password hunter2",
        "os.environ['API_KEY'] = 'hunter2'",
        "user[password]=hunter2",
        "wrong password: hunter2",
        "Login(user='ann', password=Secret('hunter2'))",
        "password='hunter2 which was cut",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----",
        "AccountName=shop;AccountKey=hunter2hunter2hunter2==",
    ],
)
def test_credentials_in_free_text_are_replaced(text):
    shown = redact_text(text)

    assert "hunter2" not in shown
    assert REDACTED in shown


@pytest.mark.parametrize(
    "key",
    [
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0_abcdefghijklmnop",
        "glpat-abcdefghij0123456789",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "rk_test_4eC39HqLyjWDarjtT1zdp7dc",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "sk-proj-abcdefghij0123456789",
        "xoxb-123456789012-abcdef",
        "AIzaSyA-0123456789abcdefghijklmnopqrstu",
    ],
)
def test_keys_that_show_by_their_look_are_replaced_without_a_name(key):
    assert redact_text(f"refused: ({key}), {key}") == f"refused: ({REDACTED}), {REDACTED}"


@pytest.mark.parametrize(
    "text",
    [
        "order 5 is not paid",
        "see https://example.org/a:b/c",
        "invalid token: unexpected end",
        "Missing credentials: Please log in",
        "a bearer of news",
        "basic subscription expired",
        "fence token 1700000000000001 was refused",
        "connect to http://auth:8080/health",
        "if password == expected:",
        "fields 'password', 'email' are missing",
        "task-1 sk-learn-pipelines-of-mine",
        "",
    ],
)
def test_other_text_stays_as_it_is(text):
    assert redact_text(text) == text


def test_what_stands_beside_a_secret_stays():
    text = "POST https://ann:x@shop/pay?token=y&order=5 {'password': 'z', 'order': 5} api_key=w, order=5"

    assert redact_text(text) == (
        f"POST https://ann:{REDACTED}@shop/pay?token={REDACTED}&order=5 "
        f"{{'password': '{REDACTED}', 'order': 5}} api_key={REDACTED}, order=5"
    )


def test_a_line_of_code_is_not_taken_for_the_beginning_of_a_value_of_many_lines():
    trace = '  File "shop.py", line 3, in pay\n    token = fetch(\nValueError: order 5'

    assert redact_text(trace).endswith(f"token = {REDACTED}\nValueError: order 5")


def test_to_redact_again_changes_nothing():
    once = redact_text("Authorization: Bearer abcdefgh1\n{'password': ['a', 'b'], 'n': 1} redis://:hunter2@cache")

    assert redact_text(once) == once


def test_text_that_is_kept_is_cut_only_after_it_was_redacted():
    text = "x" * 70 + " AKIAIOSFODNN7EXAMPLE"

    assert "AKIA" not in kept_text(text, 85)
    assert len(kept_text("x" * 1_000, 85)) == 85
    assert kept_text("x" * 1_000, 85).endswith("…[cut]")
