"""What an answer over HTTP says about a failure: by its status, and by `Retry-After`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from ..states import Category
from .rules import Judgement, Rule, paths

KINDS = (
    "requests.exceptions.RequestException",
    "httpx.HTTPStatusError",
    "urllib.error.HTTPError",
    "urllib3.exceptions.HTTPError",
    "aiohttp.client_exceptions.ClientResponseError",
    "botocore.exceptions.ClientError",
    "google.api_core.exceptions.GoogleAPICallError",
)
_CATEGORIES: Mapping[int, Category] = {
    400: Category.VALIDATION,
    408: Category.TRANSIENT,
    409: Category.CONCURRENCY,
    412: Category.CONCURRENCY,
    413: Category.VALIDATION,
    422: Category.VALIDATION,
    423: Category.CONCURRENCY,
    425: Category.TRANSIENT,
    429: Category.THROTTLED,
    501: Category.PERMANENT,
    505: Category.PERMANENT,
}
_LONGEST_S = 366 * 86_400.0


def _judge(error: BaseException, made: int) -> Judgement | None:
    if not any(path in KINDS for path in paths(error)):
        return None
    status, headers = _status(error), _headers(error)
    category = category_of(status) if status is not None else None
    if category is None:
        return None
    after = retry_after_s(headers)
    if status == 503 and after is not None:
        category = Category.THROTTLED
    return Judgement(category=category, rule=HTTP.name, because=f"has HTTP status {status}", retry_after_s=after)


HTTP = Rule("HTTP status", _judge, KINDS)


def category_of(status: int) -> Category | None:
    """Say what kind of failure a status is; None where it is none."""
    if status in _CATEGORIES:
        return _CATEGORIES[status]
    if 400 <= status < 500:
        return Category.PERMANENT
    return Category.DEPENDENCY if 500 <= status < 600 else None


def retry_after_s(headers: Mapping[str, Any], now: datetime | None = None) -> float | None:
    """Read `Retry-After`: seconds, or a date, which is counted from the answer's own date where it has one.

    Args:
        now: what a date is counted from where the answer has none.
    """
    told = str(headers.get("Retry-After", "") or "").strip()
    if told.isascii() and told.isdecimal():
        return min(float(told[:12]), _LONGEST_S)
    then = _date(told)
    if then is None:
        return None
    # The sender's clock, where it is told: ours may be another.
    begin = _date(str(headers.get("Date", "") or "")) or now or datetime.now(timezone.utc)
    return min(max(0.0, (then - begin).total_seconds()), _LONGEST_S)


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _status(error: Any) -> int | None:
    response = _response(error)
    places = (
        _of(response, "status_code"),
        _of(response, "status"),
        _of_table(response, "HTTPStatusCode"),
        _of(error, "status"),
        _of(error, "code"),
    )
    return next((int(found) for found in places if isinstance(found, int) and 100 <= found < 600), None)


def _headers(error: Any) -> Mapping[str, Any]:
    response = _response(error)
    places = (_of(response, "headers"), _of_table(response, "HTTPHeaders"), _of(error, "headers"))
    found: Any = next((place for place in places if hasattr(place, "items")), {})
    return {"-".join(word.capitalize() for word in str(name).split("-")): value for name, value in found.items()}


def _response(error: Any) -> Any:
    return _of(error, "response")


def _of(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:  # such as a wrapper of a file that is not there
        return None


def _of_table(response: Any, name: str) -> Any:
    """Look into what botocore has in a response's place."""
    told = response.get("ResponseMetadata") if isinstance(response, Mapping) else None
    return told.get(name) if isinstance(told, Mapping) else None
