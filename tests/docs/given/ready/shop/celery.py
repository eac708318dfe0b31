import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")

app = Celery("shop", task_cls="django_celery_replay:ReplayTask")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
