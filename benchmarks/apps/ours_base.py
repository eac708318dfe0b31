"""celery-replay with nothing declared: trace, redelivery made harmless, poison cap, dead letters."""

from __future__ import annotations

import os

from . import common

app = common.make_app(task_cls=os.environ["BENCH_TASK_CLS"])
app.conf.replay_store = os.environ["BENCH_STORE"]


@app.task(name=common.TASK)
def job(number: int) -> dict[str, int]:
    """Do the work."""
    return common.body(number)
