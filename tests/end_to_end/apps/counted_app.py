"""One task, under celery-replay or, where REPLAY_TEST_PLAIN is set, under plain Celery: for counting round trips."""

from __future__ import annotations

import os

from celery import Celery

from celery_replay import record
from tests.end_to_end.apps.project import make_app

plain = bool(os.environ.get("REPLAY_TEST_PLAIN"))
app = Celery("counted") if plain else make_app("counted")
app.conf.update(
    broker_transport_options={},
    task_acks_late=True,
    task_ignore_result=not os.environ.get("CELERY_RESULT_BACKEND"),
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=1,
    # Nothing shall be written but what each attempt needs, until the worker ends.
    replay_flush_interval=3600,
    replay_lease_ttl=600,
    replay_steward="off",
)
options = {} if plain else {"idempotency_key": "count:{number}", "on_incomplete": "resume"}


@app.task(name="counted", **options)
def counted(number: int) -> dict[str, int]:
    """Do next to nothing, or fail at it where REPLAY_TEST_FAILS is set."""
    record("computed", number=number)
    if os.environ.get("REPLAY_TEST_FAILS"):
        raise ValueError(number)
    return {"number": number}
