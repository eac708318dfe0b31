"""The third act: a bug, tried out with its fix before anything is done, kept as a test, and mended for real."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

from .processes import Shop
from .witness import Witness

REPLAY = "celery_replay"
PATIENCE_S = 30
FIX = {"SHOP_RELEASE": "2"}
INTRODUCTION = """
Then there is a bug of our own. A customer is thanked: a gift is sent, and then the job fails.
"""


class Undecided(Exception):
    """The job did not become a dead letter."""


class Mending:
    """What a person does at the command line, shown as it is typed."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._witness = Witness(shop)

    def act(self) -> list[str]:
        """Let the job fail, try its fix, and replay it; return what is wrong in the end."""
        print(INTRODUCTION, flush=True)
        order, job, before = self._shop.manage("thank_first").split()
        self._await_letter(job)
        self._type(REPLAY, "run", job)
        print("Would the fix help? A dry run asks that, and does nothing:\n", flush=True)
        self._type(REPLAY, "run", job, "--mode", "dry-run", fixed=True)
        print("And with the double rate, one at a time? A fork is a dry run with something changed:\n", flush=True)
        leased = '--option=resources=["order:{order_id}"]'
        self._type(REPLAY, "run", job, "--mode", "fork", "--set", "rate=2", leased, fixed=True)
        gifts = self._witness.look().gifts
        print("The recorded job becomes a test, which pytest runs without any service:\n", flush=True)
        self._type(REPLAY, "export", job, "--output", str(self._shop.folder / "thanks.replay.json"))
        print("The fix is deployed, and the job replayed for real:\n", flush=True)
        self._shop.stop_workers()
        self._shop.env |= FIX
        self._shop.start_workers(1)
        self._type(REPLAY, "dlq", "replay", job, "--because", "release 2", "--yes", "--wait")
        return self._wrong(order, int(before), gifts)

    def _wrong(self, order: str, before: int, gifts: dict[str, int]) -> list[str]:
        """Ask the carrier and the database, not our records."""
        sent = self._witness.look().gifts.get(order, 0)
        after = self._witness.points_for(order)
        print(f"\nThe carrier sent {sent} gift, and the customer got {after - before} points.", flush=True)
        well = gifts == {order: 1} and sent == 1 and after - before == 100
        return [] if well else ["celery-replay: the mended job had another effect than its dry run"]

    def _await_letter(self, job: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            listed = self._shop.manage(REPLAY, "dlq", "list", "--state", "open", "--limit", "1000", "--json")
            if any(json.loads(line)["task_id"] == job for line in listed.splitlines()):
                return
            time.sleep(0.2)
        raise Undecided("the job did not become a dead letter")

    def _type(self, *words: str, fixed: bool = False) -> None:
        shown = [Path(word).name if word.startswith("/") else word for word in words]
        setting = "SHOP_RELEASE=2 " if fixed else ""
        print(f"$ {setting}manage.py {shlex.join(shown)}", flush=True)
        self._shop.manage(*words, show=True, env=FIX if fixed else {})
        print(flush=True)
