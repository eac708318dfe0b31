from __future__ import annotations

import pytest

from celery_replay import ConfigurationError, record
from celery_replay.erasing import erase
from celery_replay.snapshots.changes import changes
from celery_replay.snapshots.reading import taken
from celery_replay.snapshots.tree import Tree
from celery_replay.snapshots.values import decoded


@pytest.fixture
def shelf():
    """Lend a little world on which tasks work."""
    return {"stock": 3}


def snapshots(lab, result):
    lab.settled(result.id)
    return {one.when: one for one in taken(lab.events(result.id))}


def state(lab, one, name="shelf"):
    (body,) = Tree(one.reference, lab.store.blobs).records(name).values()
    return decoded(body)


def test_declared_state_is_captured_before_and_after_the_body(lab, shelf):
    @lab.task(state={"shelf": lambda: dict(shelf)})
    def take(count):
        shelf["stock"] -= count
        record("taken", count=count)

    result = take.delay(2)
    lab.get(result)
    found = snapshots(lab, result)
    assert [state(lab, one) for one in found.values()] == [{"stock": 3}, {"stock": 1}]
    before, after = (Tree(one.reference, lab.store.blobs) for one in found.values())
    (change,) = changes(before, after)
    assert [(field.name, field.before, field.after) for field in change.fields] == [("stock", 3, 1)]
    names = lab.names(result.id)
    assert [name for name in names if name in ("snapshot_taken", "taken")] == [
        "snapshot_taken",
        "taken",
        "snapshot_taken",
    ]


def test_hooks_get_the_arguments_that_they_name(lab):
    @lab.task(state={"order": lambda order_id: {"id": order_id}})
    def ship(order_id, fast=False):
        pass

    result = ship.delay(7, fast=True)
    lab.get(result)
    assert state(lab, snapshots(lab, result)["before"], "order") == {"id": 7}


def test_what_a_failed_body_left_is_captured(lab, shelf):
    @lab.task(state={"shelf": lambda: dict(shelf)})
    def take():
        shelf["stock"] = 0
        raise ValueError("torn")

    result = take.delay()
    lab.error(result)
    assert state(lab, snapshots(lab, result)["after"]) == {"stock": 0}


def test_a_body_may_capture_a_moment_in_between(lab, shelf):
    @lab.task(bind=True, state={"shelf": lambda: dict(shelf)})
    def take(self):
        shelf["stock"] = 2
        self.attempt.snapshot("halfway")
        shelf["stock"] = 1

    result = take.delay()
    lab.get(result)
    assert [*snapshots(lab, result)] == ["before", "halfway", "after"]
    assert state(lab, snapshots(lab, result)["halfway"]) == {"stock": 2}


@pytest.mark.parametrize("error", [ZeroDivisionError, RecursionError, AssertionError])
def test_a_hook_that_fails_fails_nothing_else(lab, error):
    def broken():
        raise error("no state today")

    @lab.task(state={"shelf": broken})
    def take():
        return "done"

    result = take.delay()
    assert lab.get(result) == "done"
    assert snapshots(lab, result) == {}
    failed = [event for event in lab.events(result.id) if event.name == "snapshot_failed"]
    assert [event.attributes["when"] for event in failed] == ["before", "after"]
    assert failed[0].attributes["error"] == error.__name__


def test_with_no_capture_there_is_none(lab, shelf):
    @lab.task(state={"shelf": lambda: dict(shelf)}, capture="none")
    def take():
        return "done"

    result = take.delay()
    lab.get(result)
    assert snapshots(lab, result) == {}


def test_unchanged_state_of_two_jobs_is_one_blob(lab, shelf):
    @lab.task(state={"shelf": lambda: dict(shelf)})
    def look():
        pass

    results = [look.delay() for _ in range(2)]
    references = {one.reference for result in results for one in snapshots(lab, result).values()}
    assert len(references) == 1


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"shelf": 3}, "must be a dict of names and callables"),
        ([], "must be a dict of names and callables"),
        ({"": dict}, "must be a dict of names and callables"),
        ({"shelf": lambda color: color}, "wants color, which is no parameter of the task"),
    ],
    ids=["no function", "no dict", "no name", "no such parameter"],
)
def test_a_bad_declaration_is_an_error_when_the_task_is_bound(lab, state, said):
    with pytest.raises(ConfigurationError, match=said):

        @lab.task(state=state)
        def take(count):
            pass


def test_erasing_a_job_takes_its_snapshots_with_all_their_parts(lab):
    rows = {f"row {number}": {"name": "ann", "n": number} for number in range(2_000)}

    @lab.task(state={"rows": lambda: rows})
    def look():
        pass

    result = look.delay()
    lab.get(result)
    job = lab.settled(result.id)
    (reference,) = {one.reference for one in snapshots(lab, result).values()}
    parts = Tree(reference, lab.store.blobs).references()
    assert lab.store.blobs(parts).keys() == parts

    erase(lab.runtime, job, "ann", "asked for")
    assert lab.store.blobs(parts) == {}
