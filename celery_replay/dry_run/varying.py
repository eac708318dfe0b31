"""A recording with what a variation changes of it before anything runs."""

from __future__ import annotations

from typing import Any

from .. import targets
from ..exceptions import ConfigurationError
from ..policy import TaskPolicy, as_declared, check_lease, check_options, compile_policy
from ..records import evolve
from ..replay import fitting
from ..replay import message as messages
from ..runtime import Runtime
from .recording import Recording
from .variation import Variation, VariationUnfit


def policy_of(task: Any, runtime: Runtime, variation: Variation) -> TaskPolicy:
    """Compile a task's options as they would be if it were declared so, with the checks of its binding.

    Raises:
        VariationUnfit: it could not be declared so.
    """
    if not variation.options:
        return runtime.policy(task)
    try:
        declared = as_declared(task, variation.options)
        check_options(declared)
        targets.check(declared)
        check_lease(declared, runtime.settings)
        return compile_policy(task, runtime.settings, variation.options)
    except ConfigurationError as error:
        raise VariationUnfit(error.message) from error


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
