"""A recording with what a variation changes of it before anything runs."""

from __future__ import annotations

from ..policy import TaskPolicy
from ..records import evolve
from ..replay import fitting
from ..replay import message as messages
from .recording import Recording
from .variation import Variation


def varied(recording: Recording, policy: TaskPolicy, variation: Variation) -> Recording:
    """Return what is to be run.

    Raises:
        PayloadUnfit: today's code can't be called with these arguments.
    """
    message = recording.message
    if variation.arguments:
        message = fitting.with_arguments(message, policy, variation.arguments, mended=recording.mended)
    if variation.arguments or "idempotency_key" in variation.options:
        message = messages.without_key(message)
    if message == recording.message:
        return recording
    return evolve(recording, message=message, payload=messages.read(message))
