"""A sandbox for replayed bodies: they run as they are, and nothing that they do reaches the outside.

See the explanation of the sandbox in the docs for what each layer protects from, and what none does.
"""

from .audit import Blocked, doing
from .child import Running, run, start, wait
from .kernel import Layers, available, lock
from .report import Output, Raised, Report

__all__ = [
    "Blocked",
    "Layers",
    "Output",
    "Raised",
    "Report",
    "Running",
    "available",
    "doing",
    "lock",
    "run",
    "start",
    "wait",
]
