"""A chord's member that kills its worker each time: on every broker and result backend the chord fails; none hangs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_replay.records import Letter
from celery_replay.states import Category, Outcome, Reason
from tests.end_to_end.conftest import RESULTS, StageMaker
from tests.end_to_end.stage import Stage, references, wait_for
from tests.end_to_end.test_canvas_chords import _chord

CAP = 3
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module", params=["redis", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> dict[str, str]:
    """Name a broker: the stage's own Redis, or RabbitMQ."""
    return {} if request.param == "redis" else {"broker": request.getfixturevalue("rabbitmq_url")}


@pytest.fixture(scope="module", params=["redis", RESULTS], ids=["redis", "django"])
def stage(request: pytest.FixtureRequest, broker: dict[str, str], make_stage: StageMaker) -> Iterator[Stage]:
    """Lend a worker; messages come again because their child died, not because time has passed."""
    backend = {} if request.param == "redis" else {"backend": request.param}
    settings = {"replay_poison_cap": CAP, "replay_lease_ttl": 2}
    if not broker:
        settings["broker_transport_options"] = {"visibility_timeout": 120}
    with make_stage("canvas_app", settings=settings, **broker, **backend) as lent:
        lent.start(concurrency=2, ready_timeout_s=60)
        yield lent


def _letters_since(stage: Stage, before: list[Letter]) -> list[Letter]:
    known = {letter.submission for letter in before}
    return [letter for letter in stage.all_letters() if letter.submission not in known]


def test_a_poisonous_member_is_one_letter_and_fails_the_chord(stage: Stage) -> None:
    body, error, poison, one, two = references(5)
    before = stage.all_letters()
    task_id = stage.web(_chord, [("done", one), ("poison", poison), ("done", two)], body, error)
    wait_for(lambda: stage.effects(error), "the chord's error callback", 90)
    stage.settle()
    assert stage.effects(poison, "tries") == CAP
    letter, of_body = sorted(_letters_since(stage, before), key=lambda letter: letter.reason is Reason.CHORD_FAILED)
    assert (of_body.task_id, of_body.reason) == (task_id, Reason.CHORD_FAILED)
    assert (letter.operation, letter.reason, letter.category) == ("poison", Reason.POISON, Category.POISON)
    assert stage.job(task_id=letter.task_id).status is Outcome.FAILED
    assert "PoisonJob" in stage.result(letter.task_id)
    assert (stage.state(task_id), stage.effects(body), stage.effects(error)) == ("FAILURE", 0, 1)
    assert "PoisonJob" in stage.result(task_id)
    assert [stage.effects(name) for name in (one, two)] == [1, 1]


def test_two_poisonous_members_are_two_letters_and_fail_the_chord_once(stage: Stage) -> None:
    body, error, first, second = references(4)
    before = stage.all_letters()
    task_id = stage.web(_chord, [("poison", first), ("poison", second)], body, error)
    wait_for(lambda: stage.effects(error), "the chord's error callback", 90)
    stage.settle()
    assert [stage.effects(name, "tries") for name in (first, second)] == [CAP, CAP]
    letters = _letters_since(stage, before)
    assert sorted(letter.reason for letter in letters) == [Reason.CHORD_FAILED, Reason.POISON, Reason.POISON]
    assert (stage.state(task_id), stage.effects(body), stage.effects(error)) == ("FAILURE", 0, 1)
