"""The test project with other users, and with its records in a second SQLite file."""

from __future__ import annotations

import os
from pathlib import Path

from tests.django_settings import *  # noqa: F403
from tests.django_settings import INSTALLED_APPS
from tests.support.database_urls import django_database

FOLDER = Path(os.environ["PEOPLE_FOLDER"])
INSTALLED_APPS = [*INSTALLED_APPS, "tests.django_people"]
AUTH_USER_MODEL = "django_people.Person"
DATABASES = {name: django_database(f"sqlite:///{FOLDER / name}.sqlite3") for name in ("default", "replay")}
CELERY_REPLAY_STORE = "django://replay"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
