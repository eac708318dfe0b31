"""celery-once: a lock per task in Redis, taken when it is published."""

from __future__ import annotations

import os

from celery_once import QueueOnce

from . import common

app = common.make_app()
app.conf.ONCE = {
    "backend": "celery_once.backends.Redis",
    "settings": {"url": os.environ["CELERY_BROKER_URL"], "default_timeout": 3600},
}


@app.task(name=common.TASK, base=QueueOnce, once={"keys": ["number"]})
def job(number: int) -> dict[str, int]:
    """Do the work."""
    return common.body(number)
