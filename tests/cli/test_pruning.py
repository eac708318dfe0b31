from __future__ import annotations

from celery_replay.clock import SECOND
from tests.conformance.callers import closes, runs


def test_what_is_past_its_retention_is_counted_and_goes(shop):
    for name in "abc":
        closes(shop.store, runs(shop.store, name, claim=None), claim=None)
    assert shop.types("prune --dry-run").stdout == "0 jobs are past their retention\n"
    shop.fails("letter")
    shop.clock.now += 400 * 86_400 * SECOND
    assert shop.reads("prune --dry-run") == [{"past_retention": 3, "counted_up_to": 100_000, "pruned": 0}]
    assert shop.types("prune").stdout == "3 jobs deleted\n"
    assert [job.submission for job in shop.store.find_jobs()] == ["letter"]
