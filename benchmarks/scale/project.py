"""The Django project that the measurements are made in: that of the tests, on a database of its own."""

from __future__ import annotations

import os

SETTINGS = "tests.django_settings"


def setup(url: str) -> None:
    """Set Django up for a database, in whatever process this is; before any of our models is imported."""
    os.environ.update(DJANGO_SETTINGS_MODULE=SETTINGS, REPLAY_DJANGO_DATABASE_URL=url)
    if url.startswith("mysql"):
        from tests.support import mariadb_server  # noqa: F401 - lets Django speak to it
    import django

    django.setup()
