"""What a run has otherwise is plain data: it can be stored, and what can't be meant is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from celery_replay.dry_run.variation import AS_RECORDED, Cache, Variation, VariationUnfit

EVERYTHING = Variation(
    arguments={"order_id": 7},
    options={"lease_ttl": 5},
    stubs={"pay": None},
    live=("label", "notify"),
    at="after payment",
    begin_with="after",
    cache=Cache.BYPASS,
    follow=2,
    follow_jobs=5,
    ignore=("*.updated_at",),
)


@pytest.mark.parametrize("variation", [AS_RECORDED, EVERYTHING], ids=["nothing", "everything"])
def test_it_comes_back_from_json_as_it_was(variation: Variation) -> None:
    assert Variation.of_data(json.loads(json.dumps(variation.as_data()))) == variation


def test_what_is_not_varied_is_not_said() -> None:
    assert AS_RECORDED.as_data() == {}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"colour": 1}, "does not know colour"),
        ({"live": "pay"}, "live is str"),
        ({"stubs": []}, "stubs is tuple"),
        ({"at": 5}, "at is the name"),
        ({"follow": 10**6}, "up to 20 deep"),
        ({"cache": "wild"}, "wild"),
        ({"options": {"colour": 1}}, "no option of a task"),
        ({"live": ["pay"], "stubs": {"pay": 1}}, "can't be live"),
    ],
)
def test_what_can_not_be_meant_is_refused(data: dict[str, Any], said: str) -> None:
    with pytest.raises(VariationUnfit, match=said):
        Variation.of_data(data)
