"""Opens the store in processes that need Django for nothing else, such as a steward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django
from django.apps import apps

if TYPE_CHECKING:
    from .store import DjangoStore


def open_store(**options: Any) -> DjangoStore:
    """Make the store, after setting Django up where nobody has done so yet."""
    if not apps.ready:
        django.setup()
    from .store import DjangoStore

    return DjangoStore(**options)
