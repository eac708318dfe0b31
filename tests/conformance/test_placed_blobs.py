"""Any store: large values go elsewhere, are read as before, and are deleted there when nothing refers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from celery_replay.clock import SECOND
from celery_replay.dead_letters import Decision
from celery_replay.exceptions import StoreError
from celery_replay.records import Chunk, Placed
from celery_replay.states import Verb
from celery_replay.stores.base import Store
from celery_replay.stores.places import name_in
from celery_replay.stores.placing import AGAIN_US, RETRY_US, UNREFERRED_US
from celery_replay.trace import Recorder, stripped
from tests.conformance.callers import closes, runs
from tests.conformance.remains import tables_with
from tests.conformance.world import Clock
from tests.rules.builders import ending

BODY = b"j" + b"large" * 200
SMALL = b"j7"


class Shelf:
    """A place that may be down, and lets a test do something in the middle of a put."""

    place = "a shelf"

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.down = False
        self.meanwhile: object = None

    def put(self, bodies: Mapping[str, bytes]) -> None:
        self._see()
        self.kept.update(bodies)
        if self.meanwhile is not None:
            self.meanwhile()  # type: ignore[operator]

    def get(self, names: Sequence[str]) -> Mapping[str, bytes]:
        self._see()
        return {name: self.kept[name] for name in names if name in self.kept}

    def delete(self, names: Sequence[str]) -> None:
        self._see()
        for name in names:
            self.kept.pop(name, None)

    def _see(self) -> None:
        if self.down:
            raise OSError("no route to host")


@pytest.fixture
def shelf(store: Store) -> Shelf:
    found = Shelf()
    store.elsewhere = found
    store.place_blobs()
    return found


def runs_with(store: Store, name: str, *blobs: tuple[str, bytes], trace: str = "") -> None:
    job = runs(store, name, claim=None, trace_id=trace or name)
    chunk = Chunk(trace_id=trace or name, nonce=job.nonce, first=1, count=1, body=b"j[]", blobs=blobs)
    store.flush(chunks=[chunk])
    closes(store, job, claim=None, canvas=False)


def places_all(store: Store) -> None:
    store.archive()
    store.count_up()
    while store.place_blobs():
        pass


def inside(store: Store, reference: str) -> bytes:
    with store._read() as reader:
        return reader.blobs([reference]).get(reference, b"")


def journal_of(store: Store) -> Store:
    return getattr(store, "journal", store)


def test_a_large_value_goes_elsewhere_and_is_read_as_before(store: Store, shelf: Shelf) -> None:
    runs_with(store, "a", ("ref", BODY), ("small", SMALL))
    assert store.blobs(["ref", "small"]) == {"ref": BODY, "small": SMALL}
    places_all(store)
    assert list(shelf.kept.values()) == [BODY]
    assert store.blobs(["ref", "small", "other"]) == {"ref": BODY, "small": SMALL}
    assert name_in(inside(journal_of(store), "ref")) in shelf.kept
    assert store.place_blobs() == 0


def test_what_was_there_before_goes_elsewhere_too(store: Store) -> None:
    runs_with(store, "a", ("ref", BODY))
    store.elsewhere = shelf = Shelf()
    places_all(store)
    assert list(shelf.kept.values()) == [BODY]


def test_the_same_value_again_is_not_put_again(store: Store, shelf: Shelf) -> None:
    runs_with(store, "a", ("ref", BODY))
    places_all(store)
    runs_with(store, "b", ("ref", BODY))
    places_all(store)
    assert len(shelf.kept) == 1
    assert name_in(inside(journal_of(store), "ref")) in shelf.kept


def test_it_is_deleted_after_the_last_trace_that_has_it(store: Store, shelf: Shelf, clock: Clock) -> None:
    runs_with(store, "a", ("ref", BODY))
    clock.now += 10 * SECOND
    runs_with(store, "b", ("ref", BODY))
    places_all(store)
    clock.now += ending().keep_us - 10 * SECOND
    assert store.prune() == 1
    store.sweep_blobs(at=clock.now + AGAIN_US)
    assert store.blob("ref") == BODY
    clock.now += 20 * SECOND
    assert store.prune() == 1
    assert len(store.unreferred_blobs()) == 1
    store.sweep_blobs(at=clock.now + AGAIN_US)
    assert shelf.kept == {}
    with store._read() as reader:
        assert list(reader.placed_due(clock.now + 10 * AGAIN_US, 10)) == []


def test_an_object_that_is_needed_is_looked_at_once_a_day(store: Store, shelf: Shelf, clock: Clock) -> None:
    runs_with(store, "a", ("ref", BODY))
    places_all(store)
    assert store.sweep_blobs() == 0
    clock.now += AGAIN_US
    assert (store.sweep_blobs(), store.sweep_blobs()) == (1, 0)
    assert store.blob("ref") == BODY


def test_while_it_is_down_values_stay_in_the_store(store: Store, shelf: Shelf, clock: Clock) -> None:
    shelf.down = True
    runs_with(store, "a", ("ref", BODY))
    with pytest.raises(OSError, match="no route"):
        places_all(store)
    assert store.blob("ref") == BODY
    shelf.down = False
    places_all(store)
    assert list(shelf.kept.values()) == [BODY]
    # What the first try may have left behind.
    clock.now += UNREFERRED_US
    store.sweep_blobs()
    assert list(shelf.kept.values()) == [BODY]


def test_reading_says_that_it_is_down(store: Store, shelf: Shelf) -> None:
    if journal_of(store) is not store:
        pytest.skip("what is in the ledger, too, is read from there")
    runs_with(store, "a", ("ref", BODY))
    places_all(store)
    shelf.down = True
    with pytest.raises(StoreError, match="a shelf: OSError: no route to host"):
        store.blob("ref")
    store.elsewhere = None
    with pytest.raises(StoreError, match="set replay_blobs"):
        store.blob("ref")


def test_what_cannot_be_deleted_now_is_deleted_later(store: Store, shelf: Shelf, clock: Clock) -> None:
    runs_with(store, "a", ("ref", BODY))
    places_all(store)
    clock.now += ending().keep_us
    store.prune()
    shelf.down = True
    with pytest.raises(OSError, match="no route"):
        store.sweep_blobs(at=clock.now + AGAIN_US)
    shelf.down = False
    assert store.sweep_blobs() == 0
    clock.now += RETRY_US
    assert store.sweep_blobs() == 1
    assert shelf.kept == {}


def test_a_put_of_the_same_content_meets_no_deletion(store: Store, shelf: Shelf, clock: Clock) -> None:
    runs_with(store, "a", ("ref", BODY))
    places_all(store)
    clock.now += ending().keep_us
    store.prune()
    runs_with(store, "b", ("ref", BODY))
    # The old object is deleted while the new one is on its way.
    shelf.meanwhile = lambda: _meanwhile(shelf, store, clock)
    places_all(store)
    assert list(shelf.kept.values()) == [BODY]
    assert store.blob("ref") == BODY


def _meanwhile(shelf: Shelf, store: Store, clock: Clock) -> None:
    shelf.meanwhile = None
    store.sweep_blobs(at=clock.now + AGAIN_US)


def test_who_comes_late_with_an_object_that_was_given_up_refers_to_nothing(
    store: Store, shelf: Shelf, clock: Clock
) -> None:
    runs_with(store, "a", ("ref", BODY))

    def paused() -> None:
        shelf.meanwhile = None
        clock.now += UNREFERRED_US
        store.sweep_blobs()

    shelf.meanwhile = paused
    store.archive()
    store.count_up()
    store.place_blobs()
    assert shelf.kept == {}
    assert store.blob("ref") == BODY
    places_all(store)
    assert list(shelf.kept.values()) == [BODY]


def test_two_who_put_the_same_value_leave_one(store: Store, shelf: Shelf, clock: Clock) -> None:
    runs_with(store, "a", ("ref", BODY))

    def other() -> None:
        shelf.meanwhile = None
        store.place_blobs()

    shelf.meanwhile = other
    places_all(store)
    assert len(shelf.kept) == 2
    clock.now += AGAIN_US
    store.sweep_blobs()
    assert name_in(inside(journal_of(store), "ref")) in shelf.kept
    assert len(shelf.kept) == 1


def test_erasing_deletes_it_at_once(store: Store, shelf: Shelf) -> None:
    job = runs(store, "a", claim=None, task_id="a", trace_id="trace")
    recorder = Recorder("trace", job.nonce, {"job": "a"})
    recorder.record("mailed", domain=True, attributes={"text": [f"ann {n} lee" for n in range(2_000)]})
    store.flush(chunks=recorder.take())
    closes(store, job, claim=None, canvas=False)
    places_all(store)
    assert len(shelf.kept) == 1
    store.erase("a", Decision(verb=Verb.ERASED, actor="bob", text="request 7"), stripped)
    assert shelf.kept == {}
    assert tables_with(store, "ann 7 lee") == set()


def test_a_ledgers_objects_are_taken_over_by_its_journal(store: Store, shelf: Shelf, clock: Clock) -> None:
    shelf.kept["ab/name"] = BODY
    runs_with(store, "a", ("ref", b">ab/name"))
    places_all(store)
    assert store.blob("ref") == BODY
    with store._read() as reader:
        assert reader.placed_due(clock.now + AGAIN_US, 9) == [
            Placed(name="ab/name", reference="ref", look_at=clock.now + AGAIN_US)
        ]
