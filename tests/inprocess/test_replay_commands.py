"""Dead letters replayed from the command line, by a worker that really runs them."""

from __future__ import annotations

import json
import os
import signal
import threading
from itertools import pairwise
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from celery_replay.cli import options
from celery_replay.cli import replay as commands
from celery_replay.clock import SECOND
from celery_replay.dead_letters import Decision
from celery_replay.states import LetterState, RowStatus, Verb
from celery_replay.stores.memory import MemoryStore
from tests.inprocess.lab import Gate

NOBODY_CAN_BE_ASKED = 2
PARTLY = 4
INTERRUPTED = 130


@pytest.fixture
def types(lab):
    def types(line, *more, code=0):
        obj = SimpleNamespace(app=lab.app)
        result = CliRunner().invoke(commands, [*line.split(), *more], obj=obj, prog_name="replay")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return types


@pytest.fixture
def failing(lab):
    """Return a maker of a task that fails for the numbers in a set, and has failed for them."""

    def failing(*numbers, **options):
        bad = set(numbers)

        @lab.task(**{"stepwise": True, **options})
        def charge(number, password="hunter2"):
            lab.log.append((number, password))
            if number in bad:
                raise ValueError(f"no {number}")
            return number

        letters = []
        for number in numbers:
            result = charge.delay(number)
            lab.error(result)
            lab.settled(result.id)
            letters.append(lab.letter(result.id))
        lab.log.clear()
        return charge.name, bad, letters

    return failing


def objects(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def states(lab, letters):
    return [lab.store.letter(letter.submission).state for letter in letters]


def ran(lab):
    lab.idle()
    return sorted(number for number, _ in lab.log)


def test_a_group_is_replayed_and_followed_to_its_end(lab, types, failing):
    _, bad, letters = failing(1, 2, 3)
    bad.clear()
    group = letters[0].group_id.partition(":")[2][:8]
    shown = types(f"dlq replay --group {group} --because mended --yes --wait").stdout
    lines = [line.split() for line in shown.splitlines() if line.startswith("resolved")]
    assert [line[1] for line in lines] == [letter.submission for letter in letters]
    assert states(lab, letters) == [LetterState.RESOLVED] * 3
    assert ran(lab) == [1, 2, 3]


def test_a_look_first_changes_nothing(lab, types, failing):
    task, _, letters = failing(1, 2)
    before = list(lab.store.letters())
    shown = types(f"dlq replay --task {task} --dry-run").stdout
    assert [line.split()[:2] for line in shown.splitlines()[:2]] == [["letters", "verdict"], ["2", "ready"]]
    assert all(letter.submission in shown for letter in letters)
    assert list(lab.store.letters()) == before
    assert ran(lab) == []


def test_the_queue_that_it_goes_to_is_shown_before(lab, types, failing):
    task, _, _ = failing(1)
    (item,) = objects(types(f"dlq replay --task {task} --dry-run --json"))
    assert item["route"] == lab.app.conf.task_default_queue


def test_where_nobody_can_be_asked_nothing_is_sent_without_a_yes(lab, types, failing):
    task, _, letters = failing(1)
    result = types(f"dlq replay --task {task} --because mended", code=NOBODY_CAN_BE_ASKED)
    assert "--yes" in result.stderr
    assert states(lab, letters) == [LetterState.OPEN]


def test_nothing_is_sent_without_a_reason(lab, types, failing):
    task, _, letters = failing(1)
    assert "--because" in types(f"dlq replay --task {task} --yes", code=2).stderr
    assert states(lab, letters) == [LetterState.OPEN]


def test_who_and_why_are_in_the_history(lab, types, failing):
    task, _, (letter,) = failing(1)
    types(f"dlq replay --task {task} --yes --actor ann --because", "the bank is back")
    (entry, *_) = lab.store.history(submission=letter.submission)
    assert (entry.verb, entry.actor, entry.text) == (Verb.REPLAYED, "ann", "the bank is back")
    lab.idle()


def test_what_changes_while_somebody_is_asked_is_left_out(lab, types, failing, monkeypatch):
    task, bad, letters = failing(1, 2)
    bad.clear()

    def discards(question, *, given):
        lab.store.decide(letters[0].submission, Decision(verb=Verb.DISCARDED, actor="bob"))

    monkeypatch.setattr(options, "consent", discards)
    result = types(f"dlq replay --task {task} --because mended --wait --json", code=PARTLY)
    told = {item["id"]: (item["verdict"], item["said"]) for item in objects(result)}
    assert told[letters[0].submission][0] == "left_out"
    assert "discarded" in told[letters[0].submission][1]
    assert told[letters[1].submission][0] == "resolved"
    assert ran(lab) == [2]


def test_unknown_effects_are_accepted_by_their_exact_number(lab, types, failing):
    task, bad, letters = failing(1, 2, stepwise=False)
    bad.clear()
    line = f"dlq replay --task {task} --because mended --yes --wait"
    assert "give --include-unknown 2" in types(line, code=PARTLY).stdout
    assert "--include-unknown 2" in types(f"{line} --include-unknown 3", code=2).stderr
    assert ran(lab) == []
    types(f"{line} --include-unknown 2")
    assert states(lab, letters) == [LetterState.RESOLVED] * 2


def test_what_fails_again_is_told_and_ends_with_four(lab, types, failing):
    task, bad, letters = failing(1, 2)
    bad.discard(2)
    items = objects(types(f"dlq replay --task {task} --because mended --yes --wait --json", code=PARTLY))
    told = {item["id"]: (item["verdict"], item["said"]) for item in items}
    assert told[letters[0].submission] == ("failed_again", "builtins.ValueError: no 1")
    assert told[letters[1].submission] == ("resolved", "replayed")


def test_json_has_one_object_per_letter_with_its_secrets_redacted(lab, types, failing):
    task, _, letters = failing(1)
    lab.log.clear()
    result = types(f"dlq replay --task {task} --because mended --yes --json")
    (item,) = objects(result)
    lab.idle()
    assert (item["verdict"], item["hindrance"], item["effect"]) == ("sent", None, "absent")
    assert item["binding"]["now"] == {"number": 1}
    assert lab.job(item["task_id"]).original == letters[0].submission
    assert item["operation"] in result.stderr


def test_a_secret_in_the_payload_is_not_told(lab, types, failing):
    _, _, (letter,) = failing(1)
    types(f"dlq edit {letter.submission} --set", 'password="open sesame"')
    shown = types(f"dlq replay {letter.submission} --dry-run --json").stdout
    assert json.loads(shown)["binding"]["now"] == {"number": 1, "password": "[redacted]"}
    types(f"dlq replay {letter.submission} --because mended --yes --wait", code=PARTLY)
    assert lab.log == [(1, "open sesame")]


def test_the_second_run_takes_what_the_first_left(lab, types, failing):
    task, bad, letters = failing(1, 2, 3, 4, 5)
    bad.clear()
    line = f"dlq replay --task {task} --because mended --yes --wait --json"
    first, second = (objects(types(f"{line} --limit {limit}")) for limit in (2, 100))
    assert len(first) == 2
    assert len(second) == 3
    assert {item["id"] for item in first + second} == {letter.submission for letter in letters}
    assert ran(lab) == [1, 2, 3, 4, 5]


def test_where_a_canary_fails_the_others_are_not_sent(lab, types, failing):
    task, bad, letters = failing(1, 2, 3)
    bad.intersection_update({1})
    line = f"dlq replay --task {task} --because mended --yes --canary 1 --json"
    verdicts = [item["verdict"] for item in objects(types(line, code=PARTLY))]
    assert verdicts == ["failed_again", "left_out", "left_out"]
    assert states(lab, letters) == [LetterState.OPEN] * 3
    assert ran(lab) == [1]


def test_where_a_canary_lives_the_others_follow(lab, types, failing):
    task, bad, _ = failing(1, 2, 3)
    bad.clear()
    items = objects(types(f"dlq replay --task {task} --because mended --yes --canary 1 --json"))
    assert [item["verdict"] for item in items] == ["resolved", "sent", "sent"]
    assert ran(lab) == [1, 2, 3]


def test_with_a_rate_they_wait_for_their_turn_and_can_be_called_off(lab, types, failing):
    task, bad, letters = failing(1, 2, 3)
    bad.clear()
    result = types(f"dlq replay --task {task} --because mended --yes --rate 0.05 --json")
    (operation,) = {item["operation"] for item in objects(result)}
    rows = sorted((row for row in lab.store.rows() if row.status is RowStatus.RELEASED), key=lambda row: row.wake_at)
    assert [later.wake_at - row.wake_at for row, later in pairwise(rows)] == [20 * SECOND]
    lab.wait(lambda: states(lab, letters)[0] is LetterState.RESOLVED, "the first one's end")

    stopped = objects(types(f"dlq stop {operation} --because enough --json"))
    ended = objects(types(f"dlq follow {operation} --json", code=PARTLY))

    assert [item["verdict"] for item in stopped] == ["stopped"] * 2
    assert sorted(item["verdict"] for item in ended) == ["resolved", "stopped", "stopped"]
    assert states(lab, letters) == [LetterState.RESOLVED, LetterState.OPEN, LetterState.OPEN]
    assert types(f"dlq stop {operation} --because enough", code=1).stdout == ""
    lab.clock.forward(60)
    lab.release_due()
    assert ran(lab) == [1]


def test_without_a_steward_that_leads_a_rate_is_warned_of(lab, types, failing):
    class Leaderless(MemoryStore):
        def lead(self, *_, **__):
            return False

    lab.use(Leaderless(lab.clock))
    task, _, _ = failing(1)
    assert "no steward leads" in types(f"dlq replay --task {task} --because mended --yes --rate 0.5").stderr
    lab.idle()


def test_a_steward_that_leads_needs_no_warning(lab, types, failing):
    task, _, _ = failing(1)
    lab.store.lead("steward-1", 60 * SECOND)
    assert "steward" not in types(f"dlq replay --task {task} --because mended --yes --rate 0.5").stderr
    lab.idle()


def test_it_calls_itself_off_once_too_many_have_failed_again(lab, types, failing):
    task, _, letters = failing(1, 2, 3)
    line = f"dlq replay --task {task} --because mended --yes --wait --rate 0.1 --stop-after 1 --json"
    verdicts = [item["verdict"] for item in objects(types(line, code=PARTLY))]
    assert verdicts == ["failed_again", "stopped", "stopped"]
    assert states(lab, letters) == [LetterState.OPEN] * 3
    assert ran(lab) == [1]
    assert "--wait" in types(f"dlq replay --task {task} --because x --yes --stop-after 1", code=2).stderr


def test_what_is_sent_can_not_be_called_off(lab, types, failing):
    task, bad, letters = failing(1)
    lab.store.lead("steward-1", 60 * SECOND)
    with lab.app.connection_for_write():
        lab.app.control.cancel_consumer(lab.app.conf.task_default_queue, reply=True)
    (item,) = objects(types(f"dlq replay --task {task} --because mended --yes --json"))
    (told,) = objects(types(f"dlq stop {item['operation']} --because enough --json", code=PARTLY))
    assert told["verdict"] == "pending"
    assert "sent already" in told["said"]
    bad.clear()
    lab.app.control.add_consumer(lab.app.conf.task_default_queue, reply=True)
    lab.wait(lambda: states(lab, letters) == [LetterState.RESOLVED], "its end")


def test_whoever_leaves_is_told_how_to_go_on(lab, types):
    gate = Gate()

    @lab.task(stepwise=True)
    def slow():
        if lab.log:
            gate.wait()
            return
        lab.log.append("failed")
        raise ValueError

    result = slow.delay()
    lab.error(result)
    lab.settled(result.id)
    letter = lab.letter(result.id)

    def leave():
        gate.await_reached()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=leave).start()
    left = types(f"dlq replay {letter.submission} --because mended --yes --wait", code=INTERRUPTED)
    hint = next(line for line in left.stderr.splitlines() if line.startswith("left;"))
    operation = lab.store.letter(letter.submission).operation_id
    assert f"dlq follow {operation}" in hint
    assert f"dlq stop {operation}" in hint
    gate.open()
    assert types(f"dlq follow {operation}").stdout.split()[:2] == ["resolved", letter.submission]


def test_what_says_never_is_left_out_of_a_group_and_sent_alone_by_somebody_who_says_so(lab, types, failing):
    task, bad, letters = failing(1, 2, replay="never")
    bad.clear()
    (one, two) = (letter.submission for letter in letters)
    shown = types(f"dlq replay --task {task} --because mended --yes", code=PARTLY)
    assert "--override-never" in shown.stdout
    assert "one letter" in types(f"dlq replay {one} {two} --because x --override-never --yes", code=2).stderr
    assert "one letter" in types(f"dlq replay --task {task} --because x --override-never --yes", code=2).stderr
    assert ran(lab) == []
    types(f"dlq replay {one} --because mended --override-never --yes --wait")
    assert states(lab, letters) == [LetterState.RESOLVED, LetterState.OPEN]


def test_a_letter_is_named_by_the_task_id_of_its_replay_too(lab, types, failing):
    task, _, (letter,) = failing(1)
    (item,) = objects(types(f"dlq replay --task {task} --because mended --yes --wait --json", code=PARTLY))
    (shown,) = objects(types(f"dlq show {item['task_id']} --json"))
    assert shown["id"] == letter.submission
    assert [(one["task_id"], one["status"]) for one in shown["replayed_as"]] == [(item["task_id"], "failed")]
    assert [entry["verb"] for entry in shown["history"]] == ["replayed", "failed_again"]


def test_of_several_names_those_that_lead_nowhere_are_told(lab, types, failing):
    _, bad, (letter,) = failing(1)
    bad.clear()
    items = objects(types(f"dlq replay {letter.submission} nobody --because x --yes --wait --json", code=PARTLY))
    assert [(item["id"], item["verdict"]) for item in items] == [
        ("nobody", "not_found"), (letter.submission, "resolved"),
    ]  # fmt: skip


def test_which_letters_has_to_be_said(types):
    assert "Name their ids" in types("dlq replay --because x", code=2).stderr
    assert "not both" in types("dlq replay a --task t --because x", code=2).stderr


@pytest.mark.parametrize("rate", ["nan", "inf", "0", "1e-300", "-1"])
def test_a_rate_that_is_none_is_refused_before_anything_is_sent(lab, types, failing, rate):
    task, _, letters = failing(1, 2)
    types(f"dlq replay --task {task} --because x --yes --rate {rate}", code=2)
    assert states(lab, letters) == [LetterState.OPEN, LetterState.OPEN]


def test_a_mended_payload_is_what_a_replay_sends(lab, types, failing):
    _, _, (letter,) = failing(1)
    types(f"dlq edit {letter.submission} --set number=7")
    types(f"dlq replay {letter.submission} --because mended --yes --wait")
    assert lab.log == [(7, "hunter2")]
    assert lab.store.letter(letter.submission).message == letter.message
