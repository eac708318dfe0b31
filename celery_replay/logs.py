"""Loggers that never carry a job's data: not even where an exception that is logged does."""

from __future__ import annotations

import logging

from .exceptions import StoreError
from .redaction import kept_text
from .serialization import TEXT_LIMIT, safe_text
from .tracebacks import raised_at

OF_SYSTEMS = frozenset({"OperationalError", "InterfaceError"})
"""Errors of any database's driver (PEP 249), of Django and of kombu that are about connections and not about data."""


class _WithoutData(logging.Filter):
    """Tells of an exception where it was raised; what it says only if that is about a server, a file or a network."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass."""
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = kept_text(raised_at(record.exc_info[1], _says), TEXT_LIMIT)
            # Else a formatter or an error reporter of the project could take it from the exception, or its frames.
            record.exc_info = None
        return True


_FILTER = _WithoutData()


def logger_of(module: str) -> logging.Logger:
    """Return a module's logger."""
    logger = logging.getLogger(module)
    logger.addFilter(_FILTER)
    return logger


def _says(error: BaseException) -> str:
    names = {cls.__name__ for cls in type(error).__mro__}
    if not isinstance(error, (OSError, StoreError)) and not names & OF_SYSTEMS:
        return ""
    # PostgreSQL shows the refused row in the second line.
    return kept_text(safe_text(error).partition("\n")[0], 300)
