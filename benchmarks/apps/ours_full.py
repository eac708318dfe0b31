"""celery-replay with everything on: a key, a lease, what to do after a crash, and an event of the task's own."""

from __future__ import annotations

import os

from celery_replay import record

from . import common

app = common.make_app(task_cls=os.environ["BENCH_TASK_CLS"])
app.conf.replay_store = os.environ["BENCH_STORE"]


@app.task(name=common.TASK, idempotency_key="job:{number}", on_incomplete="resume", lease_ttl=60)
def job(number: int) -> dict[str, int]:
    """Do the work."""
    result = common.body(number)
    record("computed", squared=result["squared"])
    return result
