"""The test project as workers and producers have it: in the same database, without what only visitors need.

The admin and the scheduler's tables take a third of the time in which Django is set up, in hundreds of processes.
"""

from __future__ import annotations

from tests.django_settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_celery_results",
    "django_celery_replay",
]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = __name__
urlpatterns: list[object] = []
