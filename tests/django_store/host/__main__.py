"""Migrate a host project, look whether it would need migrations of its own, and read a page as one of its users."""

from __future__ import annotations

import sys

import django
from django.conf import settings
from django.core.management import call_command

APPS = ["admin", "auth", "contenttypes", "messages", "sessions"]


def configure(auto_field: str, user_model: str) -> None:
    from tests import django_settings as ours

    settings.configure(
        ALLOWED_HOSTS=["testserver"],
        AUTH_USER_MODEL=user_model,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        DEFAULT_AUTO_FIELD=f"django.db.models.{auto_field}",
        INSTALLED_APPS=[
            "tests.django_store.host",
            *(f"django.contrib.{app}" for app in APPS),
            "django_celery_replay",
        ],
        MIDDLEWARE=ours.MIDDLEWARE,
        ROOT_URLCONF="tests.django_urls",
        SECRET_KEY="only for tests",
        STATIC_URL=ours.STATIC_URL,
        TEMPLATES=ours.TEMPLATES,
        USE_TZ=True,
    )
    django.setup()


def main(auto_field: str, user_model: str) -> None:
    configure(auto_field, user_model)
    from django.contrib.auth import get_user_model
    from django.test import Client

    call_command("makemigrations", "django_celery_replay", check=True, dry_run=True)
    call_command("migrate", run_syncdb=True, verbosity=0)
    call_command("migrate", check_unapplied=True, verbosity=0)
    client, user = Client(), get_user_model().objects.create_superuser("reader")
    client.force_login(user)
    sys.stdout.write(f"{client.get('/admin/django_celery_replay/processedjob/').status_code}\n")
    user.delete()


main(*sys.argv[1:])
