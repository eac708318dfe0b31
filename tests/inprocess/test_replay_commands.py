"""Dead letters replayed from the command line, by a worker that really runs them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from celery_replay.cli import replay as commands
from celery_replay.states import LetterState


@pytest.fixture
def types(lab):
    def types(line, *more, code=0):
        result = CliRunner().invoke(commands, [*line.split(), *more], obj=SimpleNamespace(app=lab.app))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return types


@pytest.fixture
def failing(lab):
    """Register a task that fails for the numbers in a set, and let it fail for some."""

    def failing(*numbers, **options):
        bad = set(numbers)

        @lab.task(**{"stepwise": True, **options})
        def charge(number, password="secret"):
            lab.log.append(number)
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
        return charge, bad, letters

    return failing


def objects(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def states(lab, letters):
    return [lab.store.letter(letter.submission).state for letter in letters]


def test_a_group_is_replayed_and_followed_to_its_end(lab, types, failing):
    _, bad, letters = failing(1, 2, 3)
    bad.clear()
    group = letters[0].group_id.partition(":")[2][:8]
    result = types(f"dlq replay --group {group} --because mended --yes --wait")
    print(result.stdout, result.stderr)
    assert states(lab, letters) == [LetterState.RESOLVED] * 3
