"""django-celery-results' own backend: chords are exact there as long as nobody dies at their end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.end_to_end.conftest import StageMaker
from tests.end_to_end.stage import Stage
from tests.end_to_end.test_canvas_chords import (  # noqa: F401 - to be run on this stage
    test_a_member_whose_process_dies_is_brought_back_and_counts_once,
    test_the_body_gets_every_result_once,
)
from tests.end_to_end.test_canvas_copies import test_a_header_task_that_comes_twice_counts_once  # noqa: F401


@pytest.fixture(scope="module")
def canvas(make_stage: StageMaker) -> Iterator[Stage]:
    """Lend a worker on the stock backend."""
    with make_stage("canvas_app", backend="django-db") as lent:
        lent.start(concurrency=3)
        yield lent
