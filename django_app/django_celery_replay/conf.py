"""What the project's settings say, read when it is asked for."""

from __future__ import annotations

from django.conf import settings
from django.db import router


def store_alias() -> str | None:
    """Return the alias of the store's database, if that is where the store is."""
    from .models import ProcessedJob

    scheme, _, rest = (getattr(settings, "CELERY_REPLAY_STORE", None) or "django").partition("://")
    if scheme != "django":
        return None
    return rest or router.db_for_write(ProcessedJob)
