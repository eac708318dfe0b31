"""Settings of the shop; everything that differs between places comes from SHOP_* variables."""

from __future__ import annotations

import os
from pathlib import Path

from .celery import uses_replay
from .databases import databases

DATA_DIR = Path(os.environ.get("SHOP_DATA_DIR", Path(__file__).resolve().parents[1] / "var"))
DATA_DIR.mkdir(parents=True, exist_ok=True)
REDIS_URL = os.environ.get("SHOP_REDIS_URL", "redis://127.0.0.1:6379")
OUTSIDE_URL = os.environ.get("SHOP_OUTSIDE_URL", "http://127.0.0.1:8900")

SECRET_KEY = "not secret: this project never leaves your machine"
DEBUG = True
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "example_project.shop_project.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "example_project.shop",
]
if uses_replay:
    INSTALLED_APPS += ["django_celery_replay"]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = databases(DATA_DIR)
DATABASE_ROUTERS = ["example_project.shop_project.routers.ReplayRouter"]
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": f"{REDIS_URL}/1",
    }
}

CELERY_BROKER_URL = f"{REDIS_URL}/0"
CELERY_RESULT_BACKEND = f"{REDIS_URL}/2"
CELERY_TASK_ACKS_LATE = os.environ.get("SHOP_ACKS_LATE") == "1"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    # Short, so that the jobs of a killed worker come back while somebody watches.
    "visibility_timeout": 4,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
    # A worker that is killed in the middle of restoring keeps this lock: 300 s by default.
    "unacked_mutex_expire": 3,
}

CELERY_REPLAY_STORE = "django"
CELERY_REPLAY_LEASE_TTL = 3
CELERY_REPLAY_CANVAS_TTL = 3
