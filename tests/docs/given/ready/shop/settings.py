from pathlib import Path

BASE_DIR = Path(__file__).parent.parent
SECRET_KEY = "only for tests"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_celery_replay", "shop"]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"},
    "replay": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "replay.sqlite3"},
}
CELERY_REPLAY_STORE = "django://replay"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CELERY_BROKER_URL = "redis://localhost:6379/0"
CELERY_RESULT_BACKEND = "redis://localhost:6379/0"
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 60}
