"""The second act: a mail server that is down, and what becomes of the dead letters."""

from __future__ import annotations

import json
import shlex
import time
from typing import Any
from urllib.request import Request, urlopen

from .processes import Shop
from .witness import Witness

MISTYPED = 2
"""Customers whose address is no address."""
PATIENCE_S = 30
REPLAY = "celery_replay"
INTRODUCTION = """
Now a receipt is to be mailed for each order. The mail server is down, and two customers mistyped their address. No job
vanishes: each is a dead letter, and letters of one cause are one group.
"""


class Undecided(Exception):
    """The letters did not become what they should."""


class Triage:
    """What a person does at the command line, shown as it is typed."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._witness = Witness(shop)

    def fail(self) -> int:
        """Let the receipts fail; return how many dead letters that makes."""
        self.mail(down=True)
        self._shop.manage("send_receipts", "--mistyped", str(MISTYPED))
        orders = self._witness.look().orders
        self._await_letters(orders)
        return orders

    def mail(self, *, down: bool) -> None:
        """Take the mail server down, or bring it back."""
        body = json.dumps({"down": down}).encode()
        urlopen(Request(f"{self._shop.outside_url}/mail", body), timeout=5).close()

    def act(self) -> list[str]:
        """Let the receipts fail, triage them, and return what is wrong in the end."""
        print(INTRODUCTION, flush=True)
        orders = self.fail()
        self._type("dlq", "groups")
        mistyped = sorted(letter["id"] for letter in self._letters() if "ValidationError" in letter["error_type"])
        print("\nThe mail server is back. What failed for it is replayed, in one go:\n", flush=True)
        self.mail(down=False)
        self._type("dlq", "replay", "--error", "MailServerDown", "--because", "mail server is back", "--yes", "--wait")
        print("\nOne address is mended; the other customer wants no receipt.\n", flush=True)
        mended, discarded = mistyped
        self._type("dlq", "edit", mended, "--set", 'email="customer@example.org"', "--because", "typing error")
        self._type("dlq", "replay", mended, "--because", "address mended", "--yes", "--wait")
        self._type("dlq", "discard", discarded, "--because", "customer wants no receipt", "--yes")
        return self._wrong(orders)

    def _wrong(self, orders: int) -> list[str]:
        """Ask the mail server, not our records."""
        sent = self._witness.look().receipts
        twice, never = sum(count > 1 for count in sent.values()), orders - 1 - len(sent)
        print(f"\nThe mail server saw {len(sent)} receipts, {twice} of them twice; {never} are missing.", flush=True)
        return ["celery-replay: receipts were mailed twice, or not at all"] if twice or never else []

    def _await_letters(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(self._letters()) < count:
            if time.monotonic() > deadline:
                raise Undecided(f"only {len(self._letters())} of {count} receipts became dead letters")
            time.sleep(0.2)

    def _letters(self) -> list[dict[str, Any]]:
        listed = self._shop.manage(REPLAY, "dlq", "list", "--state", "open", "--limit", "1000", "--json")
        return [json.loads(line) for line in listed.splitlines()]

    def _type(self, *words: str) -> None:
        print(f"$ manage.py {shlex.join([REPLAY, *words])}", flush=True)
        self._shop.manage(REPLAY, *words, show=True)
        print(flush=True)
