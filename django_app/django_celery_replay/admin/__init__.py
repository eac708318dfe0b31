"""Pages in Django's admin. They show what the store has, and change nothing."""

from __future__ import annotations

from .jobs import ProcessedJobAdmin
from .letters import DeadLetterAdmin
from .parked import ParkedJobAdmin

__all__ = ["DeadLetterAdmin", "ParkedJobAdmin", "ProcessedJobAdmin"]
