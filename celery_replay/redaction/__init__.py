"""What is never written down or shown: values whose names, or whose own looks, say that they are secret."""

from .data import redact, secrets_in
from .names import is_secret, learn
from .text import REDACTED, kept_text, redact_text

__all__ = ["REDACTED", "is_secret", "kept_text", "learn", "redact", "redact_text", "secrets_in"]
