"""Opens the store in processes that need Django for nothing else, such as a steward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import django
from django.apps import apps

from celery_replay.exceptions import ConfigurationError

if TYPE_CHECKING:
    from .store import DjangoStore


def open_store(**options: Any) -> DjangoStore:
    """Make the store, after setting Django up where nobody has done so yet."""
    if not apps.ready:
        django.setup()
    if not apps.is_installed("django_celery_replay"):
        raise ConfigurationError(
            "the store is in Django's database, and 'django_celery_replay' is not in INSTALLED_APPS; "
            "add it, and run `manage.py migrate`"
        )
    from .store import DjangoStore

    return DjangoStore(**options)
