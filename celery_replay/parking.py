"""Messages on their way through the parking lot: kept whole, published again as they were."""

from __future__ import annotations

import base64
import marshal
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any, NamedTuple

from kombu import serialization as codecs

from .chord_bodies import as_text, content
from .clock import Micros
from .logs import logger_of
from .records import Row
from .serialization import pack, unpack
from .signatures import EMBEDDED
from .stores.base import Store

logger = logger_of(__name__)

_NOT_HEADERS = frozenset(
    {
        "args", "kwargs", "callbacks", "errbacks", "chain", "chord", "hostname", "delivery_info", "properties",
        "reply_to", "correlation_id", "called_directly", "is_eager", "loglevel", "logfile", "headers", "_children",
        "_protected", "time_limit", "soft_time_limit", "compression", "content_type", "content_encoding",
        "replay_attempt", "replay_received_at", "redelivered",
    }
)  # fmt: skip
_OF_THE_WAY = frozenset(
    {
        "application_headers", "body_encoding", "content_encoding", "content_type", "correlation_id", "delivery_info",
        "delivery_tag", "headers", "priority", "reply_to", "timestamp",
    }
)  # fmt: skip
"""Properties that are kept elsewhere, or made anew for each message."""
_OF_RABBITMQ = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count")
"""Headers that it writes on the way, delays included; in a message sent anew it takes them for the sign of a cycle."""
AGAIN = "replay_again"
"""The header of a delivery that was published once more as Celery's tracer had failed."""
_FIXED = (str, bytes, int, float, bool, type(None))


class Again(NamedTuple):
    """What such a delivery says of itself."""

    times: int = 0
    """How often it was published for that."""
    is_over: bool = False
    """The job had ended, and only that is to be announced: its body must not run."""


def again_of(request: Any) -> Again:
    """Read that header; it comes from outside."""
    told = request.get(AGAIN)
    sound = isinstance(told, (list, tuple)) and len(told) == 2 and type(told[0]) is int and told[0] > 0
    return Again(min(told[0], 1_000_000), bool(told[1])) if sound else Again()


def keep(request: Any, args: Any, kwargs: Any, serializer: str, task: Mapping[str, Any]) -> bytes:
    """Pack a delivery so that it can be published again, byte for byte as far as Celery reads it.

    The body is encoded with the message's own serializer and never decoded again here.

    Args:
        task: what the task declares, for whoever looks at the message later: `TaskPolicy.told`.
    """
    fields = vars(request)
    headers = {
        name: value for name, value in fields.items() if name not in _NOT_HEADERS and not name.startswith(_OF_RABBITMQ)
    }
    # Celery makes such a table of a message's custom headers; only one that says something else came with the message.
    nested = fields.get("headers") or {}
    if any(fields.get(name) != value for name, value in nested.items()):
        headers["headers"] = nested
    encode = partial(codecs.dumps, serializer=_serializer(fields, serializer))
    canvas = {name: fields.get(name) for name in EMBEDDED}
    info = fields.get("delivery_info") or {}
    return pack(
        {
            "v": 1,
            "task": task,
            "headers": headers,
            **content(tuple(args), dict(kwargs), canvas, encode),
            "exchange": info.get("exchange") or "",
            "routing_key": info.get("routing_key") or "",
            "priority": info.get("priority"),
            "correlation_id": fields.get("correlation_id"),
            "reply_to": fields.get("reply_to"),
            "compression": fields.get("compression"),
            "properties": _properties(fields.get("properties") or {}),
        }
    )


def _properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in properties.items()
        if name not in _OF_THE_WAY and isinstance(value, (str, int, float))
    }


def raw(message: Any) -> tuple[dict[str, Any], bytes]:
    """Take a received message apart that perhaps nobody can decode: what is on its cover, and its body.

    Returns:
        The cover as JSON data, but for what a header may have that JSON has not.
    """
    properties, info = message.properties or {}, message.delivery_info or {}
    headers = {
        name: value
        for name, value in dict(message.headers).items()
        if name != "redelivered" and not name.startswith(_OF_RABBITMQ)
    }
    # kombu has undone the compression, unless it could not.
    compression = None if message.errors else headers.pop("compression", None)
    cover = {
        "headers": headers,
        "content_type": message.content_type,
        "content_encoding": message.content_encoding,
        "exchange": info.get("exchange") or "",
        "routing_key": info.get("routing_key") or "",
        **{name: properties.get(name) for name in ("priority", "correlation_id", "reply_to")},
        "compression": compression,
        "properties": _properties(properties),
    }
    return cover, _bytes(message.body or b"", message.content_encoding)


def _bytes(body: Any, encoding: str | None) -> bytes:
    """Undo what a transport did that decodes texts by itself."""
    if not isinstance(body, str):
        return bytes(body)
    try:
        return body.encode(encoding or "utf-8")
    except (LookupError, UnicodeError):
        return body.encode("utf-8", "surrogatepass")


def keep_raw(cover: Mapping[str, Any], body: bytes) -> bytes:
    """Pack a message as it was received, its body byte for byte."""
    return pack({"v": 1, "task": {}, "bare": None, **cover, "body": as_text(body)})


def keeper(request: Any, args: Any, kwargs: Any, serializer: str, task: Mapping[str, Any]) -> Callable[[], bytes]:
    """Return a function that packs a delivery as it is now, though the body may have changed its arguments by then.

    Most deliveries are never packed, so only what can change is copied, by the fastest means that there are.
    """
    if all(isinstance(value, _FIXED) for value in (*args, *kwargs.values())):
        return lambda: keep(request, args, kwargs, serializer, task)
    try:
        copied = marshal.dumps((args, kwargs))
    except ValueError:  # more than plain data
        return _packed_now(request, args, kwargs, serializer, task)

    def pack_copy() -> bytes:
        copied_args, copied_kwargs = marshal.loads(copied)
        return keep(request, copied_args, copied_kwargs, serializer, task)

    return pack_copy


def if_it_can_be(packed: Callable[[], bytes]) -> Callable[[], bytes | None]:
    """Pack a message from another thread than the body's, which may do anything to its request meanwhile."""

    def pack() -> bytes | None:
        try:
            return packed()
        except Exception:
            logger.warning("replay.message_not_kept", exc_info=True)
            return None

    return pack


def _packed_now(request: Any, args: Any, kwargs: Any, serializer: str, task: Mapping[str, Any]) -> Callable[[], bytes]:
    try:
        packed = keep(request, args, kwargs, serializer, task)
    except Exception:  # an eager call's arguments need not be fit to be sent
        return lambda: keep(request, args, kwargs, serializer, task)
    return lambda: packed


def _serializer(fields: Mapping[str, Any], default: str) -> str:
    """Find the name of the serializer that the message came with."""
    return str(codecs.registry.type_to_name.get(fields.get("content_type"), default))


def publish(app: Any, message: bytes, delay: float = 0, again: Again | None = None) -> None:
    """Publish a kept delivery again, with the headers that it had; an ETA that it waited for is over.

    Args:
        delay: seconds that the receiving worker shall hold it back.
        again: goes along, where the tracer failed; the end of a job that is over does not expire.
    """
    kept = unpack(message)
    headers = {**kept["headers"], "eta": _eta(delay)}
    if again is not None:
        headers[AGAIN] = [again.times, again.is_over]
        if again.is_over:
            headers["expires"] = kept["properties"]["expiration"] = None
    properties = {**kept["properties"], **{name: kept[name] for name in ("correlation_id", "reply_to", "priority")}}
    expiration = _seconds(properties.pop("expiration", None))
    if expiration is not None:
        properties["expiration"] = expiration
    exchange, routing_key = kept["exchange"], kept["routing_key"]
    if not (exchange or routing_key):
        # An eager call came by no route.
        routing_key = app.amqp.router.route({}, headers["task"])["queue"].name
    with app.amqp.producer_pool.acquire(block=True) as producer:
        producer.publish(
            base64.b64decode(kept["body"]),
            content_type=kept["content_type"],
            content_encoding=kept["content_encoding"],
            exchange=exchange,
            routing_key=routing_key,
            headers=headers,
            compression=kept.get("compression"),
            retry=True,
            retry_policy={"max_retries": 3, "interval_start": 0, "interval_step": 0.2, "interval_max": 1},
            **{name: value for name, value in properties.items() if value is not None},
        )


def _seconds(expiration: Any) -> float | None:
    """Return an expiration as kombu takes it; on the wire it is milliseconds, or whatever somebody wrote there."""
    try:
        found = float(expiration) / 1000
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) and found >= 0 else None


def _eta(delay: float) -> str | None:
    return (datetime.now(timezone.utc) + timedelta(seconds=delay)).isoformat() if delay else None


def dispatch(app: Any, store: Store, rows: Iterable[Row], resend_us: Micros) -> int:
    """Publish released rows and mark them sent; return how many went out.

    Any number of processes may do it for the same row: OPEN absorbs the copies. One that fails stays released, and the
    steward tries again.
    """
    count = 0
    for row in rows:
        try:
            publish(app, row.message)
            store.mark_sent(row, resend_us)
            count += 1
        except Exception:
            logger.warning("replay.dispatch_failed", exc_info=True, extra={"submission": row.submission})
    return count
