"""Message leases: what a worker holds stays its own for as long as it holds it.

kombu's Redis transport and SQS give a message to another worker once its visibility timeout is over, whether or not its
holder lives. Renewed in time, the timeout may be short: a dead worker's jobs come back soon, and no long job twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from .config import REDIS, broker_scheme, visibility_timeout
from .logs import logger_of
from .signals import observe_failure

logger = logger_of(__name__)

Renewal = Callable[[Any, Any], int]
"""Renews what a channel holds, asking through another one; returns how many messages."""

_SQS_BATCH = 10
_BY_TIMEOUT = {*REDIS, "sqs"}
_BY_CONNECTION = {"amqp", "amqps", "pyamqp", "librabbitmq", "confluentkafka", "qpid"}
_NEVER_BACK = {"memory", "filesystem", "sqlalchemy", "sqla", "mongodb", "zookeeper", "etcd", "consul", "pyro"}


def describe(conf: Any, *, wanted: bool) -> str:
    """Say what keeps a job's message from another worker while the job runs, by the app's broker.

    Args:
        wanted: the setting `replay_message_lease`.
    """
    scheme = broker_scheme(conf)
    if scheme in _BY_TIMEOUT:
        if not wanted:
            return "off by replay_message_lease: a job longer than the visibility timeout comes twice"
        back = f"a killed worker's comes back after {visibility_timeout(conf):g} s"
        return f"renewed while a worker holds the message; {back}"
    if scheme in _BY_CONNECTION:
        return "not needed: the broker gives a message away only when its holder's connection ends"
    if scheme == "gcpubsub":
        return "not needed: kombu itself prolongs the broker's deadline while a worker holds the message"
    if scheme in _NEVER_BACK:
        return "none: this transport does not bring a dead worker's messages back by itself"
    broker = f"for {scheme}://" if scheme else "as no broker_url is set"
    return f"not known {broker}: a job longer than the broker's own deadline may come twice"


def renewal_of(channel: Any) -> Renewal | None:
    """Choose how to renew what a channel holds; None where its transport has no such timeout that we know."""
    if getattr(channel, "visibility_timeout", None) is None:
        return None
    if hasattr(channel.qos, "unacked_index_key"):
        return _on_redis
    return _on_sqs if hasattr(channel, "sqs") else None


def seconds_of(channel: Any, queues: Iterable[str]) -> float:
    """Return the shortest time after which one of the queues may give a message away.

    On SQS a queue that exists already has a time of its own; a warning says where it is not the transport's.
    """
    ours = shortest = float(channel.visibility_timeout)
    for name in queues if hasattr(channel, "sqs") else ():
        own = _own_seconds(channel, name)
        if own is not None and own != ours:
            extra = {"queue": name, "queue_s": own, "transport_s": ours}
            logger.warning("replay.visibility_timeout_differs", extra=extra)
        shortest = min(shortest, own or ours)
    return shortest


def renew(renewal: Renewal, channel: Any, through: Any = None) -> int:
    """Make the messages that a channel holds young again; return how many. Never raises.

    Args:
        through: another channel to ask through, where this one belongs to another thread.
    """
    try:
        return renewal(channel, through or channel)
    except Exception:
        observe_failure("message_lease")
        return 0


def _held(channel: Any) -> dict[str, Any]:
    """Return what a channel holds: kombu takes out later what was acknowledged."""
    over = set(channel.qos._dirty)
    return {tag: message for tag, message in list(channel.qos._delivered.items()) if tag not in over}


def _on_redis(channel: Any, through: Any) -> int:
    tags = _held(channel)
    if tags:
        with through.conn_or_acquire() as client:
            # XX: one that was acknowledged or given away meanwhile stays as it is.
            client.zadd(channel.unacked_index_key, dict.fromkeys(tags, time.time()), xx=True)
    return len(tags)


def _on_sqs(channel: Any, through: Any) -> int:
    by_queue: dict[tuple[str, str | None], list[str]] = {}
    for tag, message in _held(channel).items():
        info = message.delivery_info
        if "sqs_queue" in info:
            # Named as kombu does when it acknowledges: queues that are declared beforehand have clients of their own.
            name = channel.canonical_queue_name(info["routing_key"]) if "routing_key" in info else None
            by_queue.setdefault((info["sqs_queue"], name), []).append(tag)
    refused: Counter[str] = Counter()
    for (url, name), tags in by_queue.items():
        client = through.sqs(queue=name)
        for start in range(0, len(tags), _SQS_BATCH):
            batch = tags[start : start + _SQS_BATCH]
            entries = [
                {"Id": str(number), "ReceiptHandle": tag, "VisibilityTimeout": int(channel.visibility_timeout)}
                for number, tag in enumerate(batch)
            ]
            answer = client.change_message_visibility_batch(QueueUrl=url, Entries=entries)
            still = _held(channel)
            refused.update(f["Code"] for f in answer.get("Failed", ()) if batch[int(f["Id"])] in still)
    if refused:
        # SQS holds a message for twelve hours at most.
        logger.warning("replay.message_lease_refused", extra={"codes": dict(refused)})
    return sum(map(len, by_queue.values())) - refused.total()


def _own_seconds(channel: Any, queue: str) -> float | None:
    try:
        client = channel.sqs(queue=channel.canonical_queue_name(queue))
        url = channel._resolve_queue_url(queue)
        found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
        return float(found["Attributes"]["VisibilityTimeout"])
    except Exception:  # a permission that is not given, a queue that is not there yet
        logger.info("replay.visibility_timeout_unknown", exc_info=True, extra={"queue": queue})
        return None
