"""Signals that celery-replay sends. A receiver's error is caught, logged and counted: it can't break a job."""

from __future__ import annotations

from typing import Any

from celery.utils.dispatch import Signal

from .logs import logger_of

logger = logger_of(__name__)

attempt_closed = Signal(name="attempt_closed", providing_args={"outcome", "attempt"})
"""Sent in the worker's process after an attempt was closed or refused. The sender is the task."""

unstable_key = Signal(name="unstable_key", providing_args={"published", "computed"})
"""Sent when a key computed in the worker differs from the one that came with the message. The sender is the task."""

failed_observations = 0
"""How often a receiver, or an observation of our own, went wrong in this process."""


def send(signal: Signal, sender: Any, **arguments: Any) -> None:
    """Send a signal; count receivers that failed (Celery's dispatcher has logged them)."""
    global failed_observations
    if not signal.receivers:
        return
    for _, response in signal.send(sender=sender, **arguments) or ():
        if isinstance(response, Exception):
            failed_observations += 1


def observe_failure(what: str) -> None:
    """Log and count an error of ours that must not reach the job. To be called in an `except` block."""
    global failed_observations
    failed_observations += 1
    logger.warning("replay.observer_failed", exc_info=True, extra={"observer": what})
