"""What a step with a side effect gave: as data, encoded, or lost."""

from __future__ import annotations

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from celery_replay import ConfigurationError, step
from celery_replay.states import StepState


class Label:
    """No JSON."""

    def __init__(self, number):
        self.number = number


def fails(value):
    raise ValueError("can't")


CODED = {"encode": lambda label: {"number": label.number}, "decode": lambda data: Label(data["number"])}


@pytest.fixture
def buying(lab):
    """Make a task that buys a label in a step, and is retried once."""

    def make(options, **task):
        @step(side_effect=True, **options)
        def buy():
            lab.log.append("bought")
            return Label(len(lab.log))

        @lab.task(bind=True, max_retries=1, **task)
        def ship(self):
            number = buy().number
            if not self.request.retries:
                raise self.retry(countdown=0)
            return number

        return ship

    return make


def test_an_output_that_is_no_json_comes_back_as_it_was_encoded(lab, buying):
    result = buying(CODED).delay()

    assert lab.get(result) == 1
    assert lab.log == ["bought"]
    lab.settled(result.id)
    (record,) = lab.store.steps(lab.job(result.id).identity)
    assert (record.state, record.output) == (StepState.SETTLED, '{"number": 1}')


LOST = [{}, {**CODED, "encode": fails}, {**CODED, "decode": fails}]


@pytest.mark.parametrize("options", LOST, ids=["not encoded", "encoding failed", "decoding failed"])
@pytest.mark.parametrize("policy", [{}, {"on_incomplete": "dead_letter"}], ids=["by default", "dead_letter"])
def test_a_lost_output_goes_to_a_person(lab, buying, options, policy):
    result = buying(options, **policy).delay()

    error = lab.error(result)
    assert error.id == "result-unavailable"
    assert "give it encode= and decode=, or verify=" in str(error)
    assert lab.log == ["bought"]


@pytest.mark.parametrize("options", LOST, ids=["not encoded", "encoding failed", "decoding failed"])
def test_with_resume_the_step_whose_output_is_lost_is_done_again(lab, buying, options):
    assert lab.get(buying(options, on_incomplete="resume").delay()) == 2
    assert lab.log == ["bought"] * 2


@pytest.mark.parametrize("policy", [{}, {"on_incomplete": "resume"}], ids=["by default", "resume"])
def test_a_hook_finds_a_lost_output(lab, buying, policy):
    assert lab.get(buying({"verify": lambda: Label(7)}, **policy).delay()) == 7
    assert lab.log == ["bought"]


def test_a_hook_that_finds_nothing_of_a_step_that_was_done_does_not_let_it_be_repeated(lab, buying):
    assert lab.error(buying({"verify": lambda: None}).delay()).id == "result-unavailable"
    assert lab.log == ["bought"]


def test_an_output_that_gets_lost_is_told_in_the_trace(lab, buying):
    result = buying({**CODED, "encode": fails}, on_incomplete="resume").delay()
    lab.get(result)
    lab.settled(result.id)

    lost = [event for event in lab.events(result.id) if event.name == "step_output_lost"]
    assert [event.attributes for event in lost] == [{"error": "ValueError", "message": "can't"}] * 2


def test_within_one_attempt_no_output_is_lost(lab):
    @step(side_effect=True, key="label")
    def buy():
        lab.log.append("bought")
        return Label(len(lab.log))

    @lab.task(on_incomplete="resume")
    def ship():
        return buy() is buy()

    assert lab.get(ship.delay()) is True
    assert lab.log == ["bought"]


def test_a_time_limit_that_hits_while_an_output_is_encoded_does_not_undo_the_effect(lab):
    def encode(value):
        if lab.log.count("encoding") == 0:
            lab.log.append("encoding")
            raise SoftTimeLimitExceeded
        return value

    @step(side_effect=True, key="charge", encode=encode, decode=str, verify=lambda: "found")
    def charge():
        lab.log.append("charged")
        return "charged"

    @lab.task(bind=True, max_retries=1, on_incomplete="resume")
    def pay(self):
        try:
            return charge()
        except SoftTimeLimitExceeded:
            raise self.retry(countdown=0) from None

    assert lab.get(pay.delay()) == "found"
    assert lab.log == ["charged", "encoding"]


@pytest.mark.parametrize("options", [{"encode": str}, {"decode": str}])
def test_encode_and_decode_need_each_other(options):
    with pytest.raises(ConfigurationError, match="step buy: encode= and decode= need each other"):

        @step(side_effect=True, **options)
        def buy(): ...


@pytest.mark.parametrize("option", ["verify", "encode", "decode"])
def test_a_hook_that_would_return_before_it_has_run_is_refused(option):
    async def later(*_): ...

    with pytest.raises(ConfigurationError, match=f"step buy: {option}= returns before it has run"):

        @step(side_effect=True, **{**CODED, option: later})
        def buy(): ...
