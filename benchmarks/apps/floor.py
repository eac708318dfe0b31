"""The least that a guard in PostgreSQL can cost: one INSERT before the body and one UPDATE after it, nothing else."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import psycopg

from . import common

app = common.make_app()
_TABLE = "CREATE TABLE IF NOT EXISTS bench_floor (id text PRIMARY KEY, state text, result text, at bigint)"


@cache
def _cursor() -> psycopg.Cursor[Any]:
    commit = f"-c synchronous_commit={os.environ['BENCH_SYNCHRONOUS_COMMIT']}"
    connection = psycopg.connect(os.environ["BENCH_DATABASE_URL"], autocommit=True, options=commit, prepare_threshold=1)
    connection.execute(_TABLE)
    return connection.cursor()


@app.task(name=common.TASK, bind=True)
def job(self: Any, number: int) -> dict[str, int]:
    """Do the work between the two statements."""
    cursor, task_id = _cursor(), self.request.id
    cursor.execute(
        "INSERT INTO bench_floor VALUES (%s, 'open', NULL, 0) ON CONFLICT DO NOTHING RETURNING id", (task_id,)
    ).fetchall()
    result = common.body(number)
    cursor.execute(
        "UPDATE bench_floor SET state = 'done', result = %s WHERE id = %s RETURNING id", (str(result), task_id)
    )
    return result
