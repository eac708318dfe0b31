"""Pages in Django's admin: what the store has, and what can be decided about it."""

from __future__ import annotations

from .groups import LetterGroupAdmin
from .jobs import ProcessedJobAdmin
from .leases import ResourceLeaseAdmin
from .letters import DeadLetterAdmin
from .operation_lists import ReplayOperationAdmin
from .parked import ParkedJobAdmin

__all__ = [
    "DeadLetterAdmin",
    "LetterGroupAdmin",
    "ParkedJobAdmin",
    "ProcessedJobAdmin",
    "ReplayOperationAdmin",
    "ResourceLeaseAdmin",
]
