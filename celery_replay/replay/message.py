"""Kept messages: their payload read and mended, and a replay's message made of them. Only JSON is ever decoded."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kombu import serialization as codecs
from kombu.utils.json import dumps

from .. import headers
from ..exceptions import ReplayError
from ..headers import Stamp
from ..serialization import JSON, pack, safe_text, unpack
from ..signatures import EMBEDDED

_OF_THE_ORIGINAL = {
    "retries": 0,
    "eta": None,
    "expires": None,
    "group": None,
    "group_index": None,
    "parent_id": None,
    "replaced_task_nesting": 0,
}
"""What a replay begins anew, or has no part in: a chord that counted its original's part can't count another."""


class PayloadUnreadable(ReplayError):
    """The payload is not JSON, is damaged or was not kept; replay it as it is, or publish the job anew."""

    id = "payload-unreadable"


@dataclass(frozen=True, kw_only=True)
class Payload:
    """What a task is called with, and what its message carries for its canvas."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    canvas: Mapping[str, Any]
    """callbacks, errbacks, chain and chord, those that there are."""


def read(message: bytes) -> Payload:
    """Decode a kept message's payload.

    Raises:
        PayloadUnreadable: it is not JSON, or has not the form of Celery's messages.
    """
    kept = unpack_message(message)
    if kept.get("content_type") != JSON:
        raise PayloadUnreadable(f"the payload is {kept.get('content_type')}: only JSON is decoded, so send it as it is")
    try:
        body = base64.b64decode(kept["body"])
        args, kwargs, canvas = codecs.loads(body, JSON, kept.get("content_encoding"), accept={JSON})
        args, kwargs, canvas = tuple(args), dict(kwargs), dict(canvas or {})
    except Exception as error:  # bytes from anywhere
        raise PayloadUnreadable(f"the payload is damaged: {error}") from error
    return Payload(args=args, kwargs=kwargs, canvas={k: v for k, v in canvas.items() if k in EMBEDDED and v})


def unpack_message(message: bytes) -> dict[str, Any]:
    """Unpack a kept message.

    Raises:
        PayloadUnreadable: it was not kept, or is damaged.
    """
    if not message:
        raise PayloadUnreadable("its message was not kept")
    try:
        kept = unpack(message)
    except Exception as error:
        raise PayloadUnreadable(f"the kept message is damaged: {error}") from error
    forms = {"headers": dict, "properties": dict, "body": str}
    if not isinstance(kept, dict) or not all(isinstance(kept.get(name), form) for name, form in forms.items()):
        raise PayloadUnreadable("the kept message is damaged")
    return kept


def edit(message: bytes, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Return the message with another payload; its canvas stays.

    Raises:
        PayloadUnreadable: the message can't be read.
        TypeError: the payload is not JSON.
    """
    payload, kept = read(message), unpack_message(message)
    told = {"argsrepr": safe_text(repr(tuple(args)), 1024), "kwargsrepr": safe_text(repr(dict(kwargs)), 1024)}
    body = dumps((tuple(args), dict(kwargs), {**dict.fromkeys(EMBEDDED), **payload.canvas}))
    return pack({**kept, "headers": {**kept["headers"], **told}, "body": _encoded(body)})


def made(
    task: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, submission: str, task_id: str, retries: int = 0
) -> bytes:
    """Make a message as it would have been kept, of which only the arguments are known.

    Raises:
        TypeError: they are no JSON.
    """
    fields: dict[str, Any] = {"id": task_id, "task": task, "retries": retries}
    headers.write(fields, Stamp(submission=submission, trace_id=submission, correlation_id=submission))
    body = _encoded(dumps((tuple(args), dict(kwargs), dict.fromkeys(EMBEDDED))))
    kept = {"v": 1, "headers": fields, "properties": {}, "content_type": JSON, "content_encoding": "utf-8"}
    return pack({**kept, "body": body})


def without_key(message: bytes) -> bytes:
    """Return the message without the idempotency key that it was published with: it is computed anew.

    Raises:
        PayloadUnreadable: it was not kept, or is damaged.
    """
    kept = unpack_message(message)
    stamp = headers.find(kept["headers"])
    if stamp is None or stamp.operation is not None:
        # None, or that of a task which this one stands in for.
        return message
    fields = {**kept["headers"]}
    if isinstance(fields.get("headers"), dict):
        fields["headers"] = {**fields["headers"]}
    headers.write(fields, replace(stamp, key=None, fingerprint=None))
    return pack({**kept, "headers": fields})


def compose(message: bytes, stamp: Stamp, task_id: str, *, with_canvas: bool = False) -> bytes:
    """Make a replay's message of a kept one: another task, with its lineage in the stamp.

    Args:
        with_canvas: send callbacks, errbacks and chain on, too. Never the chord's part.

    Raises:
        PayloadUnreadable: what has to be taken off can't be.
    """
    kept = unpack_message(message)
    fields = {**kept["headers"], **_OF_THE_ORIGINAL, "id": task_id, "root_id": task_id, "origin": "celery-replay"}
    headers.write(fields, stamp)
    body, encoding = _without_canvas(message, kept, keep=with_canvas)
    return pack(
        {
            **kept,
            "headers": fields,
            "body": body,
            "content_encoding": encoding,
            "bare": None,
            "correlation_id": task_id,
            "reply_to": None,
            # The time to live that the broker was to give it is over, too.
            "properties": {k: v for k, v in kept["properties"].items() if k != "expiration"},
        }
    )


def _without_canvas(message: bytes, kept: Mapping[str, Any], *, keep: bool) -> tuple[str, Any]:
    if kept.get("content_type") != JSON:
        return kept["body"] if keep else kept.get("bare") or kept["body"], kept.get("content_encoding")
    payload = read(message)
    canvas = {**payload.canvas, "chord": None} if keep else {}
    return _encoded(dumps((payload.args, payload.kwargs, {**dict.fromkeys(EMBEDDED), **canvas}))), "utf-8"


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
