"""A recorded job as a file: it runs as the record does, has no secrets, and does nothing but be read."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from hypothesis import given
from hypothesis import strategies as st

from celery_replay.dry_run.bundle import BundleUnreadable, exported, imported
from celery_replay.dry_run.comparison import Ends
from celery_replay.dry_run.engine import Engine
from celery_replay.dry_run.moments import leases, told
from celery_replay.dry_run.recording import Recording
from celery_replay.records import evolve
from celery_replay.replay.message import Payload
from celery_replay.snapshots.tree import build
from celery_replay.snapshots.values import encoded
from tests.dry_run import shop

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.replay.json"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("version", "ends"),
    [
        ("as it failed", Ends.SAME),
        ("mended", Ends.WELL),
        ("another error", Ends.OTHERWISE),
        ("does more", Ends.DIVERGES),
    ],
)
def test_it_runs_as_the_record_does(
    recorded: tuple[Celery, Any], recording: Recording, monkeypatch: pytest.MonkeyPatch, version: str, ends: Ends
) -> None:
    monkeypatch.setattr(shop.Code, "version", version)
    again, expected = imported(exported(recording, Ends.SAME))
    with Engine(recorded[0]) as engine:
        by_record, by_file = engine.run(recording), engine.run(again)
    assert expected is Ends.SAME
    assert by_file.comparison.ends is ends
    assert (by_file.found or {})["result"] == (by_record.found or {})["result"]
    assert [pair.now for pair in by_file.comparison.pairs] == [pair.now for pair in by_record.comparison.pairs]


def test_a_file_of_a_file_is_the_same(recording: Recording) -> None:
    text = exported(recording)
    assert exported(imported(text)[0]) == text


def test_secrets_are_left_out_and_something_of_their_type_is_in_their_place(recording: Recording) -> None:
    secret = Payload(
        args=("mailto postgres://ann:hunter2@db/shop", {"password": "hunter2", "pin_token": 1234}),
        kwargs={"api_key": "hunter2", "secrets": ["hunter2"], "order_id": 7},
        canvas={},
    )
    text = exported(evolve(recording, payload=secret))
    assert "hunter2" not in text
    assert "1234" not in text
    again = imported(text)[0].payload
    assert again.args[1] == {"password": "[redacted]", "pin_token": 0}
    assert again.kwargs == {"api_key": "[redacted]", "secrets": [], "order_id": 7}


def test_the_state_is_the_same(recording: Recording) -> None:
    fields = {"points": 3, "name": "Ann \x00 \ud800", "rate": 0.1}
    built = build({"customer": {"shop.customer:1": encoded(fields)}, "none": {}})
    taken = evolve(imported(_with_state(recording))[0].snapshots["before"], reference=built.reference)
    with_state = evolve(recording, blobs=built.blobs, snapshots={"before": taken})
    again = imported(exported(with_state))[0]
    assert again.before is not None
    assert again.before.reference == built.reference


def _with_state(recording: Recording) -> str:
    return json.dumps({**json.loads(exported(recording)), "state": {}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no bundle"),
        ("[]", "no bundle"),
        ('{"celery_replay_bundle": 99}', "of format 99"),
        ('{"celery_replay_bundle": 1}', "damaged"),
        ("[" * 100_000, "no bundle"),
    ],
)
def test_what_is_no_bundle_is_refused(text: str, said: str) -> None:
    with pytest.raises(BundleUnreadable, match=said):
        imported(text)


@given(data=st.data())
def test_a_bundle_with_anything_in_any_place_is_read_or_refused(data: st.DataObject) -> None:
    bundle = json.loads(SAMPLES[0].read_text())
    place, key = bundle, data.draw(st.sampled_from(sorted(bundle)))
    while isinstance(place[key], (dict, list)) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    place[key] = data.draw(JSON)
    with suppress(BundleUnreadable):
        imported(json.dumps(bundle))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_files_of_every_version_are_read(sample: Path) -> None:
    recording, expected = imported(sample.read_text())
    assert (recording.job.operation, expected) == ("shop.ship", Ends.WELL)
    assert recording.steps["label:7"].output == '{"label": "L-7"}'
    assert recording.before is not None
    assert recording.before.names == ["customer"]


def test_what_format_1_was_given_later_is_read_where_it_is() -> None:
    old, new = (imported(sample.read_text())[0] for sample in sorted(SAMPLES, key=lambda path: len(path.name)))
    assert (old.cache_reads, leases(map(told, old.events))) == ([], [])
    assert [(read.key, read.hit, read.body is None) for read in new.cache_reads] == [
        ("price", True, False),
        ("[redacted]", True, True),
    ]
    assert new.cache_reads[0].value == {"eur": Decimal("1.50")}
    assert leases(map(told, new.events)) == ["acquired order:7"]
    assert [event.at for event in new.events if event.name == "time_read"] == [1796105560190099]


def test_there_is_a_sample() -> None:
    assert len(SAMPLES) == 2
