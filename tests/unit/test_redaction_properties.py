"""Whatever data looks like, no value survives under a secret name, and nothing else changes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from celery_replay.redaction import REDACTED, is_secret, redact, secrets_in

MARKER = "mArKeR-5309"
SECRET_NAMES = [
    "password", "Authorization", "Set-Cookie", "X-Api-Key", "stripe_secret_key", "refresh-token", "accessToken",
    "db_pass", "pin", "credentials", "X-Amz-Signature", "session_key", "user[password]",
]  # fmt: skip

harmless_names = st.text(max_size=12).filter(lambda name: not is_secret(name) and MARKER not in name)
secret_names = st.builds(
    lambda name, before, change: change(f"{before}{name}"),
    st.sampled_from(SECRET_NAMES),
    st.sampled_from(["", "x_", "my-", "HTTP_"]),
    st.sampled_from([str, str.upper, str.lower]),
)
atoms = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
plain = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(harmless_names, inner, max_size=4),
    max_leaves=12,
)
marked = st.recursive(
    st.just(MARKER),
    lambda inner: st.lists(inner | plain, max_size=3) | st.dictionaries(harmless_names, inner | plain, max_size=3),
    max_leaves=6,
)
"""Data with the marker anywhere in it, and with any other data."""
others = st.dictionaries(harmless_names, plain, max_size=2)
hidden = st.one_of(
    st.builds(lambda name, value, more: {**more, name: value}, secret_names, marked, others),
    st.builds(lambda name, value: (name, value), secret_names, marked),
    st.builds(lambda name, value: [name, value], secret_names, marked),
    st.builds(lambda name, value: {"name": name, "value": value}, secret_names, marked),
    st.builds(lambda name, quote: f"{name}={quote}{MARKER}{quote}", secret_names, st.sampled_from(["", "'", '"'])),
    st.builds(lambda name: f"{{'{name}': '{MARKER}'}}", secret_names),
    st.builds(lambda name: json.dumps({name: [MARKER]}), secret_names),
)  # fmt: skip
"""Data in which the marker stands under a secret name."""
nested = st.recursive(
    hidden,
    lambda inner: st.one_of(
        st.lists(inner | plain, min_size=1, max_size=4),
        st.tuples(inner | plain, inner, plain),
        st.dictionaries(harmless_names, inner | plain, max_size=4),
    ),
    max_leaves=10,
)
quiet = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("abc xyz.", max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz", max_size=5), inner, max_size=4),
    max_leaves=30,
)
"""Data without secrets."""


@given(nested)
def test_no_value_under_a_secret_name_survives_whatever_the_nesting(data: Any) -> None:
    assert MARKER not in repr(redact(data))


@given(secret_names, marked)
def test_a_value_whose_own_name_is_secret_is_replaced_as_a_whole(name: str, value: Any) -> None:
    assert redact(value, name) == REDACTED


@given(quiet)
def test_data_without_secrets_stays_as_it_is(data: Any) -> None:
    shown = redact(data)

    assert shown == data
    assert json.dumps(shown) == json.dumps(data)


@given(plain | nested | st.binary() | st.dictionaries(st.integers() | st.binary() | st.none(), plain))
def test_it_never_raises_and_keeps_the_shape_of_containers(data: Any) -> None:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return len(value)
        return len(value) if isinstance(value, (list, tuple)) else None

    assert redact(data) == redact(data)
    assert shape(redact(data)) == shape(data)


@given(st.text(min_size=6, max_size=30), st.text(max_size=20), st.text(max_size=20), secret_names)
def test_a_secret_of_the_arguments_is_found_in_any_text(secret: str, before: str, after: str, name: str) -> None:
    known = secrets_in({"call": [{name: secret}]})
    for text in (f"{before}{secret}{after}", f"{before}{secret!r}{after}", f"{before}{json.dumps(secret)}{after}"):
        assert secret not in redact(text, known=known).replace(REDACTED, "")
