"""A worker that is frozen for longer than its lease, and goes on when another one has taken its jobs over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from celery_replay.states import Outcome
from tests.end_to_end.apps.killpoints import PAUSE, arm, arrived, let_go
from tests.end_to_end.apps.project import EFFECTS_TABLE, LEASE_TTL_S
from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import Stage, references, wait_for
from tests.support.versions import quick_redelivery

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


def sql(stage: Stage, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(stage.database, autocommit=True) as connection:
        cursor = connection.execute(statement, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def rows(stage: Stage, reference: str) -> list[int]:
    """Return the fences of those who wrote."""
    found = sql(stage, f"SELECT fence FROM {EFFECTS_TABLE} WHERE reference = %s", reference)
    return [fence for (fence,) in found]


@quick_redelivery
def test_who_was_frozen_before_its_write_is_refused_and_who_was_frozen_within_it_is_waited_for(
    make_stage: StageMaker, tmp_path: Path
) -> None:
    before, inside = references(2)
    with make_stage("fenced_app", settings={"replay_lease_ttl": LEASE_TTL_S}) as stage:
        sql(stage, f"CREATE TABLE {EFFECTS_TABLE} (reference text, fence bigint)")
        for point, reference in (("before", before), ("inside", inside)):
            arm(tmp_path, point, reference, PAUSE)
            stage.web(send, reference)
        env = {"REPLAY_TEST_KILLS": str(tmp_path)}
        frozen = stage.start(concurrency=2, env=env)
        frozen.wait_for(lambda: arrived(tmp_path, before) and arrived(tmp_path, inside), 30, "both at their places")
        frozen.pause()

        stage.start(concurrency=2, env=env)
        wait_for(lambda: rows(stage, before), "the row of the new owner")
        # The hook of the other job asks behind the fence, whose row the frozen owner's transaction holds.
        wait_for(lambda: sql(stage, WAITING)[0][0], "the new owner's waiting")
        assert rows(stage, inside) == []

        for reference in (before, inside):
            let_go(tmp_path, reference)
        frozen.resume()
        stage.settle()

        for reference, refused in ((before, True), (inside, False)):
            job = stage.job(key=reference)
            assert (job.status, job.result) == (Outcome.SUCCEEDED, f'"{reference}"')
            events = stage.events(job)
            assert len(rows(stage, reference)) == 1
            assert (job.fence in rows(stage, reference)) is refused
            assert ("fence_refused" in {event.name for event in events}) is refused
            assert ("verified" in {event.name for event in events}) is not refused
            assert any(event.name == "stale_write_rejected" for event in events)
        assert stage.all_letters() == []


def send(app: Any, reference: str) -> None:
    app.tasks["ship"].delay(reference)
