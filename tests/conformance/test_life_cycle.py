"""The life cycle under every order of events: whatever happens, its properties hold, and it comes to rest."""

from __future__ import annotations

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from celery_replay.states import AckMode, OnIncomplete
from tests.conformance import events, profiles
from tests.conformance.events import Event
from tests.conformance.outside import Guard
from tests.conformance.properties import always
from tests.conformance.rest import check_rest
from tests.conformance.setup import Setup
from tests.conformance.world import MakeStore, World

SETUPS = st.builds(
    Setup,
    submissions=st.integers(1, 3),
    keyed=st.sampled_from([True, True, False]),
    guard=st.sampled_from(Guard),
    incomplete=st.sampled_from(OnIncomplete),
    ack=st.sampled_from(AckMode),
    counts_by_id=st.booleans(),
    whole=st.booleans(),
    canvas=st.sampled_from([True, True, False]),
    workers=st.integers(2, 3),
    retries=st.integers(0, 2),
    poison_cap=st.sampled_from([5, 2]),
    refuse_failed=st.booleans(),
    replays=st.integers(0, 2),
    accepts=st.booleans(),
    resources=st.sampled_from([((),), (("r",),), (("r", "s"),), (("r", "s"), ("s",)), (("r",), ("r", "s"), ("s",))]),
    backs_off=st.sampled_from([False, False, True]),
)


class LifeCycle(RuleBasedStateMachine):
    """Whatever can happen to a world, in any order."""

    make_store: MakeStore

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None

    @initialize(setup=SETUPS)
    def begin(self, setup: Setup) -> None:
        self.world = World(setup, self.make_store)

    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        self._happen(data, events.calm(self._world))

    @rule(data=st.data(), moves=st.integers(2, 8))
    def go_on_for_a_while(self, data: st.DataObject, moves: int) -> None:
        for _ in range(moves):
            self._happen(data, events.calm(self._world))

    @rule(data=st.data())
    def suffer_a_fault(self, data: st.DataObject) -> None:
        self._happen(data, events.faults(self._world))

    @rule(data=st.data())
    def let_a_person_act(self, data: st.DataObject) -> None:
        self._happen(data, events.operator(self._world))

    @rule(data=st.data())
    def let_time_pass(self, data: st.DataObject) -> None:
        self._happen(data, events.passing(self._world))

    @precondition(lambda self: self.world is not None)
    @invariant()
    def nothing_is_broken(self) -> None:
        broken = list(always(self._world))
        assert not broken, broken

    def teardown(self) -> None:
        if self.world is not None:
            check_rest(self.world)

    @property
    def _world(self) -> World:
        assert self.world is not None
        return self.world

    def _happen(self, data: st.DataObject, choices: list[Event]) -> None:
        if choices:
            chosen = data.draw(st.sampled_from(choices))
            chosen.happen(self._world)
            note(f"{self._world.log[-1:]}")


@pytest.mark.timeout(300)
def test_any_order_of_events_keeps_the_properties_and_comes_to_rest(make_store: MakeStore, store_kind: str) -> None:
    machine = type("LifeCycleOnAStore", (LifeCycle,), {"make_store": staticmethod(make_store)})
    run_state_machine_as_test(machine, settings=profiles.for_store(store_kind))
