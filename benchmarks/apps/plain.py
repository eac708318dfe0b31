"""Celery as it is: acknowledged late, result ignored. With a result backend, the result is stored there."""

from __future__ import annotations

import os

from . import common

app = common.make_app()
app.conf.task_ignore_result = not os.environ.get("CELERY_RESULT_BACKEND")
reuse = os.environ.get("BENCH_DB_REUSE_MAX")
if reuse:
    app.conf.CELERY_DB_REUSE_MAX = int(reuse)


@app.task(name=common.TASK)
def job(number: int) -> dict[str, int]:
    """Do the work."""
    return common.body(number)
