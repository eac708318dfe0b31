"""celery-singleton: a lock per task in Redis, taken when it is published."""

from __future__ import annotations

import os

from celery_singleton import Singleton

from . import common

app = common.make_app()
app.conf.singleton_backend_url = os.environ["CELERY_BROKER_URL"]


@app.task(name=common.TASK, base=Singleton, lock_expiry=3600)
def job(number: int) -> dict[str, int]:
    """Do the work."""
    return common.body(number)
