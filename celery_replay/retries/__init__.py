"""What kind of failure an error is, and whether, when and how often its job is tried again. Pure."""

from .errors import Invalid, Permanent, Throttled, Transient
from .policy import DeadLetter, FailurePolicy, Retry
from .rules import Rule, rule

__all__ = ["DeadLetter", "FailurePolicy", "Invalid", "Permanent", "Retry", "Rule", "Throttled", "Transient", "rule"]
