"""A recorded job, run again by other code: how it ends, where it parts from what was, and that nothing was done."""

from __future__ import annotations

import pytest
from celery import Celery

from celery_replay import Violation
from celery_replay.clock import SECOND
from celery_replay.dry_run.comparison import Ends
from celery_replay.dry_run.engine import NotRunnable
from celery_replay.dry_run.recording import Recording
from celery_replay.dry_run.variation import Variation, VariationUnfit
from celery_replay.dry_run.verdicts import summed
from celery_replay.policy import compile_policy
from celery_replay.replay.fitting import PayloadUnfit
from celery_replay.runtime import runtime_of
from celery_replay.stores.memory import MemoryStore
from tests.dry_run import shop
from tests.dry_run.conftest import Try
from tests.support.counting_server import CountingServer


def test_the_same_code_fails_in_the_same_way(today: Try) -> None:
    ran = today("as it failed")
    assert (ran.comparison.ends, ran.comparison.parts_at) == (Ends.SAME, None)
    assert ran.comparison.said == "it fails in the same way: builtins.ValueError: no address of bob"
    assert [str(pair.now) for pair in ran.comparison.pairs] == [
        "event begun ok",
        "step buy_label ok",
        "step exchange_rate ok",
        "step notify fail (CarrierDown)",
        "event carrier_down ok",
    ]


def test_mended_code_would_succeed_with_what_the_outside_gave_then(today: Try, recording: Recording) -> None:
    ran = today("mended")
    assert (ran.comparison.ends, ran.comparison.said) == (Ends.WELL, "it would succeed now")
    assert ran.found is not None
    label, who, *_, now = ran.found["result"]
    assert (label, who) == ({"label": "L-7"}, "bob")
    # The clock is that of the recording, and goes on.
    assert 0 <= now - recording.started_at // SECOND < 60
    assert ran.found["published"] == ["shop.tell"]
    assert "monotonic clocks" in ran.found["unlike"]


def test_two_runs_draw_the_same_numbers(today: Try) -> None:
    one, other = today("mended").found, today("mended").found
    assert one is not None
    assert other is not None
    assert one["result"][3:5] == other["result"][3:5]


def test_a_recorded_failure_is_raised_again_with_its_type_and_message(today: Try) -> None:
    ran = today("mended")
    assert ran.found is not None
    (told,) = [event["attributes"] for event in ran.found["events"] if event["name"] == "carrier_down"]
    assert told == {"why": "closed on Sundays"}


def test_another_failure_is_another_failure(today: Try) -> None:
    ran = today("another error")
    assert ran.comparison.ends is Ends.OTHERWISE
    assert ran.comparison.failure == {
        "type": "builtins.LookupError",
        "message": "no such street",
        "reason": "exception",
    }


def test_what_has_to_hold_by_todays_code_is_asked_of_what_it_would_bring_about(
    today: Try, recorded: tuple[Celery, MemoryStore]
) -> None:
    app, _ = recorded
    task, runtime = app.tasks["shop.ship"], runtime_of(app)
    as_declared = runtime.policy(task)
    conditions = {"postconditions": [lambda result: Violation(expected="ann", found=result[1])]}
    runtime.use_policy(compile_policy(task, runtime.settings, conditions))
    try:
        ran = today("mended")
    finally:
        runtime.use_policy(as_declared)
    assert ran.comparison.ends is Ends.OTHERWISE
    assert ran.comparison.failure is not None
    assert ran.comparison.failure["reason"] == "postcondition"
    assert "expected 'ann', found 'bob'" in ran.comparison.said


def test_a_step_of_which_nothing_is_recorded_is_not_done(today: Try) -> None:
    ran = today("does more")
    assert ran.comparison.ends is Ends.DIVERGES
    assert ran.comparison.said == "it goes on to step print_invoice, of which nothing is recorded"
    assert summed(ran) == "would diverge at step print_invoice"


def test_other_arguments_are_taken_by_their_names_and_have_a_key_of_their_own(today: Try) -> None:
    ran = today("as it failed", Variation(arguments={"who": "carol"}))
    assert ran.comparison.said.endswith("ValueError: no address of carol")
    other = today("mended", Variation(arguments={"order_id": 8}))
    # The effects of order 7 are none of order 8.
    assert (other.comparison.ends, other.found and other.found["missing"]) == (Ends.DIVERGES, ["buy_label"])
    assert other.found is not None
    assert other.found["key"] == "ship:8"


def test_arguments_that_today_s_code_does_not_take_are_refused(today: Try) -> None:
    with pytest.raises(PayloadUnfit, match="no parameter colour"):
        today("mended", Variation(arguments={"colour": 8}))


def test_a_step_of_which_nothing_is_recorded_gives_what_it_is_given(today: Try) -> None:
    ran = today("does more", Variation(stubs={"print_invoice": "by hand"}))
    assert ran.comparison.ends is Ends.WELL
    assert ran.found is not None
    assert ran.found["result"] == [{"label": "L-7"}, "by hand"]


@pytest.mark.parametrize("version", ["asks the outside", "asks and swallows"])
def test_what_asks_the_outside_is_refused_and_told_with_its_step(
    today: Try, counting_server: CountingServer, version: str
) -> None:
    ran = today(version, url=counting_server.url)
    assert ran.comparison.ends is Ends.BLOCKED
    assert {one.step for one in ran.report.blocked} == {"look_up"}
    assert counting_server.requests() == 0


def test_a_body_that_ends_its_process_is_told(today: Try) -> None:
    assert today("leaves").comparison.ends in (Ends.DIED, Ends.OTHERWISE)


def test_a_body_that_hangs_is_ended(today: Try) -> None:
    ran = today("hangs", timeout_s=3)
    assert ran.comparison.ends is Ends.DIED
    assert "killed after 3 s" in ran.comparison.said


def test_what_was_read_outside_is_as_it_was_then(today: Try, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop.Code, "rate", 9.9)
    ran = today("mended")
    assert ran.found is not None
    assert ran.found["result"][2] == 1.5


def test_another_read_than_was_recorded_gets_nothing_else(today: Try) -> None:
    ran = today("asks for another")
    assert (ran.comparison.ends, ran.found["missing"] if ran.found else None) == (Ends.DIVERGES, ["exchange_rate"])


def test_a_live_step_does_what_today_s_code_does_in_the_sandbox_alone(today: Try) -> None:
    ran = today("does more", Variation(live=("print_invoice",)))
    assert (ran.comparison.ends, ran.found and ran.found["result"]) == (Ends.WELL, [{"label": "L-7"}, "printed"])


def test_a_live_step_that_reaches_out_is_refused_and_told_by_its_name(
    today: Try, counting_server: CountingServer
) -> None:
    ran = today("asks by a step", Variation(live=("charge",)), url=counting_server.url)
    assert ran.comparison.ends is Ends.BLOCKED
    assert {one.step for one in ran.report.blocked} == {"charge"}
    assert counting_server.requests() == 0


def test_from_a_step_on_all_are_live_but_those_that_are_told_what_they_give(
    today: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop.Code, "rate", 9.9)
    ran = today("mended", Variation(at="exchange_rate", stubs={"notify": "told"}))
    assert ran.found is not None
    label, _, rate, *_ = ran.found["result"]
    assert (label, rate) == ({"label": "L-7"}, 9.9)
    assert ran.found["at"] == {
        "name": "exchange_rate", "reached": True, "compared": None, "differs": None, "since": None
    }  # fmt: skip
    before = today("mended", Variation(at="notify"))
    assert before.found is not None
    # The step's own code says that the carrier is down, today as well.
    assert before.found["result"][2] == 1.5
    assert [str(pair.now) for pair in before.comparison.pairs][3] == "step notify fail (CarrierDown)"


def test_a_place_that_the_body_does_not_come_to_is_told(today: Try) -> None:
    ran = today("mended", Variation(at="print_invoice"))
    assert (ran.comparison.ends, ran.found and ran.found["at"]) == (
        Ends.WELL,
        {"name": "print_invoice", "reached": False},
    )


def test_a_snapshot_that_was_not_taken_is_none_to_begin_with(today: Try) -> None:
    with pytest.raises(NotRunnable, match="no snapshot 'after payment'"):
        today("mended", Variation(begin_with="after payment"))


def test_the_same_step_with_another_input_differs_in_that(today: Try) -> None:
    ran = today("in a hurry")
    assert [pair.differs for pair in ran.comparison.pairs] == [(), ("input",), (), (), ()]
    assert ran.comparison.parts_at == 1
    assert today("in a hurry", Variation(ignore=("buy_*",))).comparison.parts_at is None


def test_the_same_step_with_another_output_differs_in_that_but_for_noise(today: Try) -> None:
    stubs = {"buy_label": {"label": "L-7", "printed_at": "noon"}}
    ran = today("mended", Variation(stubs=stubs))
    assert ran.comparison.pairs[1].differs == ("output",)
    assert (ran.comparison.pairs[1].then and ran.comparison.pairs[1].then.output) == '{"label": "L-7"}'
    assert today("mended", Variation(stubs=stubs, ignore=("*_at",))).comparison.parts_at is None


def test_what_is_only_done_or_published_now_is_told(today: Try) -> None:
    ran = today("mended", Variation(stubs={"notify": None}))
    assert ran.comparison.effects.only() == ([], ["step notify", "publish shop.tell"])


def test_another_lock_strategy_is_told_by_its_leases(today: Try) -> None:
    ran = today("as it failed", Variation(options={"resources": ["order:{order_id}"], "lease_ttl": 5}))
    assert ran.comparison.ends is Ends.SAME
    assert (ran.comparison.leases.then, ran.comparison.leases.now) == ([], ["acquired order:7", "released order:7"])


def test_another_key_is_computed_and_told(today: Try) -> None:
    ran = today("as it failed", Variation(options={"idempotency_key": "ship:{order_id}:{who}"}))
    assert (ran.comparison.key.then, ran.comparison.key.now) == (("ship:7",), ("ship:7:bob",))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lease_ttl": 0}, "seconds, 1 or more"),
        ({"lease_ttl": 10**6}, "replay_lease_ttl_max"),
        ({"resources": ["order:{colour}"]}, "colour"),
        ({"verify": "os.system"}, "verify='os.system': must be a callable"),
        ({"state": {"order": "os.system"}}, "state="),
        ({"atomic": "default"}, "need a database adapter"),
    ],
)
def test_options_with_which_the_task_could_not_be_declared_are_refused(
    today: Try, options: dict[str, object], said: str
) -> None:
    with pytest.raises(VariationUnfit, match=said):
        today("mended", Variation(options=options))
