"""Dead letters replayed from the command line, by a worker that really runs them."""

from __future__ import annotations

import json
import os
import signal
import threading
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from celery_replay.cli import options
from celery_replay.cli import replay as commands
from celery_replay.clock import SECOND
from celery_replay.dead_letters import Decision
from celery_replay.replay import driving
from celery_replay.states import LetterState, Verb
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
    assert {line[1] for line in lines} == {letter.submission for letter in letters}
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
    types(f"dlq replay --task {task} --yes --actor ann --because", "the bank is back", code=PARTLY)
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
    task, bad, letters = failing(1)
    bad.clear()
    result = types(f"dlq replay --task {task} --because mended --yes --json")
    (item,) = objects(result)
    lab.idle()
    assert (item["verdict"], item["hindrance"], item["effect"]) == ("resolved", None, "absent")
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
    result = types(line, code=PARTLY)
    assert [item["verdict"] for item in objects(result)] == ["failed_again", "not_sent", "not_sent"]
    assert "it stopped itself (of the first 1, 1 did not end well): dlq resume" in result.stderr
    assert states(lab, letters) == [LetterState.OPEN] * 3
    assert ran(lab) == [1]


def test_where_a_canary_lives_the_others_follow(lab, types, failing):
    task, bad, _ = failing(1, 2, 3)
    bad.clear()
    items = objects(types(f"dlq replay --task {task} --because mended --yes --canary 1 --json"))
    assert [item["verdict"] for item in items] == ["resolved"] * 3
    assert lab.log[0][0] == 1
    assert ran(lab) == [1, 2, 3]


def test_a_detached_operation_goes_on_without_its_command(lab, types, failing):
    task, bad, letters = failing(1, 2, 3)
    bad.clear()
    items = objects(types(f"dlq replay --task {task} --because mended --yes --detach --json"))
    assert [item["verdict"] for item in items] == ["chosen"] * 3
    (operation,) = {item["operation"] for item in items}
    lab.wait(lambda: driving.drive_all(lab.runtime) or states(lab, letters) == [LetterState.RESOLVED] * 3, "its end")
    ended = objects(types(f"dlq follow {operation} --json"))
    assert sorted(item["verdict"] for item in ended) == ["resolved"] * 3
    (shown,) = objects(types(f"dlq operation {operation} --json"))
    assert (shown["state"], shown["sent"], shown["resolved"]) == ("finished", 3, 3)
    assert [entry["verb"] for entry in shown["history"]] == ["begun", "finished"]


def test_an_operation_is_paused_resumed_and_aborted(lab, types, failing):
    task, bad, letters = failing(1, 2, 3)
    bad.clear()
    result = types(f"dlq replay --task {task} --because mended --yes --rate 0.05 --detach --json")
    (operation,) = {item["operation"] for item in objects(result)}
    lab.wait(lambda: driving.drive_all(lab.runtime) or states(lab, letters)[0] is LetterState.RESOLVED, "the first")
    (told,) = objects(types(f"dlq pause {operation} --json"))
    assert told["verdict"] == "paused"
    lab.clock.forward(60)
    driving.drive_all(lab.runtime)
    assert states(lab, letters)[1:] == [LetterState.OPEN] * 2
    assert "it is paused" in types(f"dlq follow {operation}", code=PARTLY).stderr
    types(f"dlq resume {operation}")
    lab.wait(lambda: driving.drive_all(lab.runtime) or states(lab, letters)[1] is LetterState.RESOLVED, "the second")
    types(f"dlq abort {operation} --because enough")
    lab.clock.forward(60)
    driving.drive_all(lab.runtime)
    assert states(lab, letters)[2] is LetterState.OPEN
    assert "is aborted" in types(f"dlq resume {operation}", code=PARTLY).stdout
    ended = objects(types(f"dlq follow {operation} --json", code=PARTLY))
    assert sorted(item["verdict"] for item in ended) == ["not_sent", "resolved", "resolved"]
    (listed,) = objects(types("dlq operations --json"))
    assert (listed["id"], listed["state"], listed["resolved"]) == (operation, "aborted", 2)
    assert ran(lab) == [1, 2]


def test_an_operation_that_is_not_there_is_said_so(types):
    for name in ("follow", "operation", "pause"):
        assert "no operation nothing" in types(f"dlq {name} nothing", code=1).stderr


def test_without_a_steward_that_leads_whoever_follows_sends_and_is_told(lab, types, failing):
    class Leaderless(MemoryStore):
        def lead(self, *_, **__):
            return False

    lab.use(Leaderless(lab.clock))
    task, bad, letters = failing(1, 2)
    bad.clear()
    assert "no steward leads" in types(f"dlq replay --task {task} --because mended --yes").stderr
    assert states(lab, letters) == [LetterState.RESOLVED] * 2


def test_a_steward_that_leads_needs_no_warning(lab, types, failing):
    task, _, _ = failing(1)
    lab.store.lead("steward-1", 60 * SECOND)
    assert "steward" not in types(f"dlq replay --task {task} --because mended --yes --detach").stderr


def test_it_stops_itself_once_too_many_have_failed_again(lab, types, failing):
    task, _, letters = failing(1, 2, 3)
    line = f"dlq replay --task {task} --because mended --yes --at-once 1 --stop-after 1 --json"
    verdicts = [item["verdict"] for item in objects(types(line, code=PARTLY))]
    assert verdicts == ["failed_again", "not_sent", "not_sent"]
    assert states(lab, letters) == [LetterState.OPEN] * 3
    assert ran(lab) == [1]


def test_it_stops_itself_while_the_share_of_those_that_fail_stays_high(lab, types, failing):
    task, _, letters = failing(*range(12))
    line = f"dlq replay --task {task} --because mended --yes --at-once 2 --of-last 4 --json"
    result = types(line, code=PARTLY)
    verdicts = [item["verdict"] for item in objects(result)]
    assert 4 <= verdicts.count("failed_again") <= 6
    assert verdicts.count("failed_again") + verdicts.count("not_sent") == 12
    assert "of the last 4, 4 failed again" in result.stderr
    assert states(lab, letters) == [LetterState.OPEN] * 12


def test_letters_of_an_operation_that_runs_are_left_out_of_another_one(lab, types, failing):
    task, bad, _ = failing(1, 2)
    bad.clear()
    lab.store.lead("steward-1", 60 * SECOND)
    types(f"dlq replay --task {task} --because mended --yes --detach --actor ann")
    items = objects(types(f"dlq replay --task {task} --dry-run --json", code=PARTLY))
    assert [item["hindrance"] for item in items] == ["operation"] * 2
    assert "of ann" in items[0]["said"]


def test_a_side_effect_that_may_happen_twice_is_accepted_by_its_name(lab, types, failing):
    task, bad, letters = failing(1, 2, stepwise=False)
    bad.clear()
    (item, _) = objects(types(f"dlq replay --task {task} --dry-run --json", code=PARTLY))
    assert [(one["name"], one["certainty"]) for one in item["effects"]] == [("body", "unknown")]
    line = f"dlq replay --task {task} --because mended --yes"
    shown = types(f"{line} --allow charge", code=PARTLY).stdout
    assert "left out for side effects that are not on the list" in shown
    assert "not on the list: body" in shown
    types(f"{line} --allow body")
    assert states(lab, letters) == [LetterState.RESOLVED] * 2


def test_effects_are_accepted_by_name_or_by_number_and_all_only_of_letters_that_are_named(types):
    both = "dlq replay --task t --because x --allow body --include-unknown 2"
    assert "not both" in types(both, code=2).stderr
    assert "by their ids" in types("dlq replay --task t --because x --allow all", code=2).stderr


def test_one_letter_is_run_for_real_by_the_command_that_runs_jobs(lab, types, failing):
    _, bad, (letter,) = failing(1, stepwise=False)
    bad.clear()
    assert "--because" in types(f"run {letter.task_id} --mode real", code=2).stderr
    assert "--mode real" in types(f"run {letter.task_id} --because x", code=2).stderr
    line = f"run {letter.task_id} --mode real --because mended"
    assert "nobody knows whether any happened" in types(f"{line} --yes", code=PARTLY).stdout
    assert ran(lab) == []
    assert "--yes" in types(f"{line} --allow all", code=2).stderr
    shown = types(f"{line} --allow all --yes").stdout
    assert "resolved" in shown
    assert ran(lab) == [1]
    assert "only those are run again for real" in types("run nothing --mode real --because x", code=1).stderr


def test_one_letter_that_is_replayed_already_is_not_sent_twice(lab, types, failing):
    _, bad, (letter,) = failing(1)
    bad.clear()
    (told,) = objects(types(f"run {letter.task_id} --mode real --because x --yes --json"))
    assert (told["verdict"], told["id"]) == ("resolved", letter.submission)
    (told,) = objects(types(f"run {letter.task_id} --mode real --because x --yes --json", code=PARTLY))
    assert (told["verdict"], told["hindrance"]) == ("left_out", "state")
    assert ran(lab) == [1]


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
    assert f"dlq abort {operation}" in hint
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
