"""What all attempts of a task tell the store alike, written down once per process: forms that each one fills in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .admission import Ask
from .facts import Delivery
from .lifecycle import Ending
from .policy import TaskPolicy
from .records import form
from .states import Outcome

if TYPE_CHECKING:
    from .runtime import Runtime


@dataclass(frozen=True, kw_only=True, slots=True)
class Forms:
    """Of one task; what is empty in them is each attempt's own."""

    ask: Ask
    ending: Ending
    delivery: Delivery
    began: Mapping[str, Any]
    """Attributes of the event that a body begins."""


def forms_of(runtime: Runtime, policy: TaskPolicy) -> Forms:
    """Write down what a task's attempts in this process have in common."""
    delivery = form(Delivery(submission="", operation=policy.operation, generation=0, message=bytes))
    same: dict[str, Any] = {
        "delivery": delivery,
        "nonce": "",
        "canvas_us": runtime.canvas_us,
        "keep_us": policy.keep_us,
        "pid": runtime.pid,
        "code_version": runtime.code["code"],
    }
    ask = Ask(
        task_id="",
        trace_id="",
        correlation_id="",
        lease_us=policy.lease_us,
        redelivery_us=runtime.redelivery_us,
        ack=policy.ack,
        is_step=policy.is_step,
        on_incomplete=policy.on_incomplete,
        refuse_failed=policy.refuse_failed,
        poison_cap=int(runtime.settings.poison_cap),
        backs_off=policy.backs_off,
        guards=policy.fenced is not None,
        **same,
    )
    ending = Ending(claim=None, outcome=Outcome.OPEN, canvas=False, **same)
    return Forms(ask=form(ask), ending=form(ending), delivery=delivery, began={**runtime.code, **policy.about})
