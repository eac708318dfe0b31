"""`replay run`: what it says, and with which exit code; that nothing real is done is tested with the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from celery_replay.dry_run.bundle import imported
from celery_replay.states import LetterState, Outcome
from tests.cli.conftest import Shop, kept

PAYLOAD = kept(b'[[5], {"password": "hunter2"}, {}]')


def test_nothing_runs_by_default(shop: Shop) -> None:
    shop.fails("letter", PAYLOAD)
    result = shop.types("run letter")
    assert result.exit_code == 0
    assert "failed" in result.stdout
    assert "sandbox" not in result.stdout


def test_a_dry_run_says_how_it_would_end(shop: Shop) -> None:
    shop.fails("letter", PAYLOAD)
    before = shop.store.job("letter"), shop.store.letter("letter")
    result = shop.types("run letter --mode dry-run")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0, result.stdout
    assert lines[0].startswith("sandbox ")
    assert lines[1].endswith("it would succeed now")
    assert lines[2].split() == ["then", "failed:", "ValueError:"]
    assert "hunter2" not in result.stdout
    assert (shop.store.job("letter"), shop.store.letter("letter")) == before


def test_all_of_it_is_there_as_json(shop: Shop) -> None:
    shop.fails("letter", PAYLOAD)
    (told,) = shop.reads("run letter --mode dry-run")
    assert (told["mode"], told["ends"], told["original"]) == ("dry-run", "succeeds", "letter")
    assert told["then"]["failure"]["type"] == "ValueError"
    assert (told["now"]["outcome"], told["blocked"], told["published"]) == (str(Outcome.SUCCEEDED), [], [])


def test_a_fork_has_other_arguments(shop: Shop) -> None:
    shop.fails("letter", PAYLOAD)
    result = shop.types("run letter --mode fork --set order_id=6")
    assert (result.exit_code, result.stdout.splitlines()[1].partition(" ")[0]) == (0, "fork")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run letter --set order_id=6", "give --mode fork"),
        ("run letter --mode dry-run --stub a=1", "give --mode fork"),
        ("run letter --mode fork --set order_id=six", "is no JSON"),
        ("run letter --mode fork --set order_id", "is not NAME=JSON"),
        ("run letter --mode fork --set colour=6", "has no parameter colour"),
        ("run letter --mode real", "say why with --because"),
        ("run letter --mode dry-run --live ship", "give --mode fork"),
        ("run letter --mode dry-run --follow", "give --mode fork"),
        ("run letter --mode dry-run --cache bypass", "give --mode fork"),
        ("run letter --mode fork --cache wild", "is none of recorded, bypass, sandbox"),
        ("run letter --mode fork --option lease_ttl=0", "seconds, 1 or more"),
        ("run letter --mode fork --option colour=1", "colour is no option of a task"),
        ("run letter --mode fork --option lease_ttl", "is not NAME=JSON"),
        ("run letter --mode fork --stub pay=1 --live pay", "can't be live and give"),
        ("run letter --mode fork --from after", "no snapshot 'after'"),
        ("run letter --mode fork --follow --depth 0", "--depth"),
    ],
)
def test_what_can_not_be_meant_is_refused(shop: Shop, line: str, said: str) -> None:
    shop.fails("letter", PAYLOAD)
    result = shop.types(line)
    assert result.exit_code in (2, 3)
    assert said in result.stderr


def test_all_that_differs_is_there_as_json(shop: Shop) -> None:
    shop.fails("letter", PAYLOAD)
    line = 'run letter --mode fork --at pay --follow --option resources=["order:{order_id}"]'
    (told,) = shop.reads(line)
    assert told["leases"] == {"then": [], "now": ["acquired order:5", "released order:5"], "same": False}
    assert told["at"] == {"name": "pay", "reached": False}
    assert (told["followed"], told["cache"]["same"], told["cache_unknown"]) == ([], True, [])
    printed = shop.types(line).stdout
    assert "then none, now acquired order:5, released order:5" in printed
    assert "it never came to pay" in printed


def test_noise_may_be_named_in_a_dry_run_too(shop: Shop) -> None:
    shop.fails("letter", PAYLOAD)
    assert shop.types("run letter --mode dry-run --ignore *_at").exit_code == 0


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "its message was not kept"),
        (b"\x00damaged", "damaged"),
        (kept(b"\x80\x04.", content_type="application/x-python-serialize"), "only JSON is decoded"),
    ],
)
def test_what_can_not_be_read_is_not_run(shop: Shop, payload: bytes, said: str) -> None:
    shop.fails("letter", payload)
    result = shop.types("run letter --mode dry-run")
    assert result.exit_code != 0
    assert said in result.stderr


def test_a_task_that_is_gone_can_not_be_run(shop: Shop) -> None:
    shop.fails("letter", PAYLOAD)
    del shop.app.tasks["shop.ship"]
    result = shop.types("run letter --mode dry-run")
    assert result.exit_code != 0
    assert "no task 'shop.ship'" in result.stderr


def test_a_job_is_exported_as_a_test(shop: Shop, tmp_path: Path) -> None:
    shop.fails("letter", PAYLOAD)
    file = tmp_path / "letter.replay.json"
    result = shop.types(f"export letter --expect fails_another_way --output {file}")
    assert (result.exit_code, result.stdout) == (0, f"written: {file}\n")
    recording, expected = imported(file.read_text())
    assert (recording.job.operation, str(expected), recording.payload.args) == ("shop.ship", "fails_another_way", (5,))
    assert "hunter2" not in file.read_text()
    assert shop.types("export letter").stdout == file.read_text().replace("fails_another_way", "succeeds")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("export letter --output a.json", "end with .replay.json"),
        ("export letter --expect died", "no test is to end so"),
        ("export letter --expect well", "is none of"),
    ],
)
def test_a_test_that_could_not_be_run_is_not_written(shop: Shop, line: str, said: str) -> None:
    shop.fails("letter", PAYLOAD)
    result = shop.types(line)
    assert (result.exit_code, said in result.stderr) == (2, True)


def test_many_are_tried_with_a_verdict_for_each_and_one_for_the_group(shop: Shop) -> None:
    for number in range(3):
        shop.fails(f"letter{number}", PAYLOAD)
    shop.fails("damaged", b"")
    result = shop.types("dlq dry-run --task shop.ship --note --actor ann")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert (result.exit_code, sorted(line[0] for line in lines)) == (4, ["refused", *["succeeds"] * 3])
    assert "3 would succeed, 1 could not be run" in result.stderr
    (group,) = shop.store.groups(10, unresolved=True)
    (note,) = shop.store.notes(group.group_id)
    assert (note.actor, note.text) == ("ann", "dry run: 3 would succeed, 1 could not be run")
    assert {letter.state for letter in shop.store.letters()} == {LetterState.OPEN}


def test_all_that_succeed_is_zero_and_each_is_there_as_json(shop: Shop) -> None:
    shop.fails("letter", PAYLOAD)
    assert shop.types("dlq dry-run letter").exit_code == 0
    (told,) = shop.reads("dlq dry-run letter")
    assert (told["id"], told["verdict"], told["parts_at"], told["failure"]) == ("letter", "succeeds", None, None)


def test_many_at_a_time_are_told_each_by_name_and_with_one_line_for_all(shop: Shop) -> None:
    for number in range(3):
        shop.fails(f"letter{number}", PAYLOAD)
    shop.fails("elsewhere", PAYLOAD, type="builtins.OSError", message="disk full")
    told = shop.reads("dlq dry-run --task shop.ship --jobs 4")
    assert sorted(each["id"] for each in told) == ["elsewhere", "letter0", "letter1", "letter2"]
    result = shop.types("dlq dry-run --task shop.ship --jobs 2")
    assert result.stderr.splitlines()[-1] == "all: 4 would succeed"
    assert shop.types("dlq dry-run --task shop.ship --jobs 0").exit_code == 2
