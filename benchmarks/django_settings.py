"""The Django project of those variants that keep records in its database."""

from __future__ import annotations

import os

from tests.support.database_urls import django_database

url = os.environ["BENCH_DATABASE_URL"]

SECRET_KEY = "only for benchmarks"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django_celery_results", "django_celery_replay"]
DATABASES = {"default": django_database(url)}
if url.startswith("sqlite"):
    DATABASES["replay"] = django_database(f"{url}.replay")
    DATABASE_ROUTERS = ["benchmarks.router.RecordsApart"]
if os.environ.get("BENCH_SYNCHRONOUS_COMMIT"):
    DATABASES["default"]["OPTIONS"] = {"options": f"-c synchronous_commit={os.environ['BENCH_SYNCHRONOUS_COMMIT']}"}
