"""What happened, as the servers, the database and the broker saw it; never our own records."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.request import urlopen

from redis import Redis

from .processes import Shop

ACCOUNTS = """
SELECT c.points, SUM(o.total_cents / 100) AS due,
       SUM(o.status = 'shipped') AS shipped, COUNT(*) AS orders
FROM shop_customer c JOIN shop_order o ON o.customer_id = c.id GROUP BY c.id
"""
POINTS = "SELECT c.points FROM shop_customer c JOIN shop_order o ON o.customer_id = c.id WHERE o.number = ?"


@dataclass(frozen=True, kw_only=True)
class Account:
    """A customer's orders and points in the business database."""

    points: int
    due: int
    shipped: int
    orders: int


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """Servers, database and broker at one moment."""

    labels: dict[str, int]
    charges: dict[str, int]
    overcharged_cents: int
    """Money that the gateway took for orders already charged."""
    receipts: dict[str, int]
    gifts: dict[str, int]
    asked: int
    """Calls that only asked, and changed nothing."""
    answering: list[dict[str, str]]
    """Clients that wait for an answer: the effect is done, and they do not know it yet."""
    accounts: tuple[Account, ...]
    reports: tuple[int, ...]
    messages: int
    """Messages in the broker, taken by a worker or not."""

    @property
    def charged(self) -> int:
        return sum(self.charges.values())

    @property
    def labelled(self) -> int:
        return sum(self.labels.values())

    @property
    def orders(self) -> int:
        return sum(account.orders for account in self.accounts)

    @property
    def shipped(self) -> int:
        return sum(account.shipped for account in self.accounts)

    @property
    def awarded(self) -> int:
        """Customers with all the points that they are due, or more."""
        return sum(account.points >= account.due for account in self.accounts)


class Witness:
    """Looks at one shop from outside."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._redis = Redis.from_url(shop.redis_url)

    def look(self) -> Sighting:
        accounts = tuple(Account(**row) for row in self._query(ACCOUNTS))
        reports = self._query("SELECT charged_cents FROM shop_dayreport")
        return Sighting(
            **self.servers(),
            accounts=accounts,
            reports=tuple(row["charged_cents"] for row in reports),
            messages=self._redis.llen("celery") + self._redis.hlen("unacked"),
        )

    def servers(self) -> dict[str, Any]:
        with urlopen(f"{self._shop.outside_url}/stats", timeout=5) as reply:
            stats: dict[str, Any] = json.load(reply)
        return stats

    def taken_since(self, moment: float) -> int:
        """Count the messages that workers took since then and have not acknowledged."""
        return int(self._redis.zcount("unacked_index", moment, "+inf"))

    def consumers(self) -> int:
        """Count the workers that take messages: each has one connection for it."""
        return sum(client["cmd"] == "brpop" for client in self._redis.client_list())

    def messages(self) -> list[bytes]:
        """Return the raw messages that wait in the broker, the first to be taken first."""
        waiting: list[Any] = self._redis.lrange("celery", 0, -1)
        return waiting[::-1]

    def send_again(self, message: bytes) -> None:
        """Deliver the same message once more, byte for byte, behind all others."""
        self._redis.lpush("celery", message)

    def points_for(self, order: str) -> int:
        """Return the points of an order's customer."""
        (row,) = self._query(POINTS, order)
        return int(row["points"])

    def _query(self, statement: str, *values: str) -> list[dict[str, Any]]:
        path = self._shop.folder / "shop.sqlite3"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(statement, values)]
