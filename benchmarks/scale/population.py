"""Who fails, why and when: causes with a few that fail all the time and many that fail now and then."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from celery_replay.clock import SECOND, Micros
from celery_replay.dead_letters import group_id
from celery_replay.states import Category, Effect, Reason

HOUR: Micros = 3600 * SECOND
TASKS = tuple(
    f"{app}.tasks.{verb}_{noun}"
    for app, nouns in {
        "shop": ("order", "cart", "refund", "invoice"),
        "shipping": ("label", "parcel", "pickup"),
        "billing": ("payment", "dunning_letter", "subscription"),
        "crm": ("contact", "newsletter", "segment"),
        "search": ("document", "index"),
    }.items()
    for noun in nouns
    for verb in ("create", "sync", "notify")
)
ERRORS = {
    "requests.exceptions.ConnectTimeout": (
        "HTTPSConnectionPool(host='api.carrier.example', port=443): Max retries exceeded with url: /v2/labels/{n} "
        "(Caused by ConnectTimeoutError('Connection to api.carrier.example timed out. (connect timeout=10)'))"
    ),
    "requests.exceptions.HTTPError": "503 Server Error: Service Unavailable for url: https://erp.example/orders/{n}",
    "django.db.utils.IntegrityError": (
        'duplicate key value violates unique constraint "shop_shipment_order_id_key"\n'
        "DETAIL:  Key (order_id)=({n}) already exists."
    ),
    "django.db.utils.OperationalError": "canceling statement due to lock timeout while updating order {n}",
    "shop.payments.CardRefused": "the bank refused card of customer {n}: insufficient funds",
    "shop.models.Order.DoesNotExist": "Order matching query does not exist: pk={n}",
    "builtins.KeyError": "'line_item_{n}'",
    "builtins.ValueError": "invalid literal for int() with base 10: 'A-{n}'",
    "builtins.TypeError": "unsupported operand type(s) for +: 'NoneType' and 'decimal.Decimal' in order {n}",
    "celery.exceptions.SoftTimeLimitExceeded": "SoftTimeLimitExceeded() after 300 s on batch {n}",
    "ssl.SSLCertVerificationError": "certificate verify failed: certificate has expired (_ssl.c:1006), peer {n}",
    "json.decoder.JSONDecodeError": "Expecting value: line 1 column 1 (char 0) in document {n}",
}
OTHER_REASONS = {
    Reason.WORKER_LOST: 40,
    Reason.HARD_TIME_LIMIT: 20,
    Reason.EFFECT_UNSETTLED: 10,
    Reason.KEY_CONFLICT: 5,
    Reason.POISON: 4,
    Reason.RETRY_NEVER_CAME: 1,
}
"""How many of a thousand causes have no exception."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """What the letters of one group have in common."""

    operation: str
    reason: Reason
    category: Category
    error_type: str
    text: str
    """The error's message, with `{n}` for what differs from job to job."""
    frames: tuple[str, ...]
    traceback: str
    group_id: str
    effect: Effect
    weight: float
    begins: int
    ends: int
    """The hours in which it occurs."""


@dataclass(frozen=True, kw_only=True)
class Population:
    """So many letters, over some weeks.

    Args:
        end: the time of the newest one.
    """

    letters: int
    groups: int
    end: Micros
    days: int = 90
    seed: int = 1

    @property
    def hours(self) -> int:
        """How many hours the letters are spread over."""
        return self.days * 24

    @property
    def start(self) -> Micros:
        """The beginning of the first hour."""
        return self.end - self.hours * HOUR

    @cached_property
    def causes(self) -> Sequence[Cause]:
        """All causes, the most frequent first."""
        chance = random.Random(self.seed)
        return [_cause(rank, self.hours, chance) for rank in range(self.groups)]

    def counts(self) -> list[int]:
        """Return how many letters each hour has: fewer at night."""
        weights = [1.2 + math.sin(hour % 24 / 24 * math.tau) for hour in range(self.hours)]
        total = sum(weights)
        ends = [round(self.letters * share / total) for share in accumulate(weights)]
        return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]

    def failures(self, hour: int, count: int) -> Iterator[tuple[Micros, Cause]]:
        """Return when something failed in an hour, and why: in the order of time, the same for everybody who asks."""
        chance = random.Random(f"{self.seed}/{hour}")
        active = [cause for cause in self.causes if cause.begins <= hour < cause.ends]
        begin = self.start + hour * HOUR
        times = sorted(begin + chance.randrange(HOUR) for _ in range(count))
        yield from zip(times, chance.choices(active, [cause.weight for cause in active], k=count), strict=True)


def _cause(rank: int, hours: int, chance: random.Random) -> Cause:
    operation = TASKS[min(int(chance.expovariate(0.12)), len(TASKS) - 1)]
    reason = _reason(rank, chance)
    error_type = chance.choice(list(ERRORS)) if reason is Reason.EXCEPTION else ""
    depth = chance.randint(2, 5)
    functions = [f"{operation.partition('.')[0]}/part{rank}.py:step_{n}" for n in range(depth)]
    frames = (f"{operation.rpartition('.')[0].replace('.', '/')}.py:{operation.rpartition('.')[2]}", *functions)
    # The few frequent ones are always there; the others come with a release, and go with the next.
    lasts = hours if rank < 20 else min(hours, max(6, int(chance.expovariate(1 / 200))))
    begins = chance.randrange(hours - lasts + 1)
    return Cause(
        operation=operation,
        reason=reason,
        category=chance.choice(list(Category)),
        error_type=error_type,
        text=ERRORS[error_type] if error_type else str(reason),
        frames=frames,
        traceback=_traceback(frames, error_type, chance) if error_type else "",
        group_id=group_id(operation, reason, error_type, frames),
        effect=chance.choices(list(Effect), [30, 10, 60])[0],
        # Zipf's law: the first has a tenth of all, half of them have a few letters each.
        weight=1 / (rank + 1) ** 0.9 * hours / lasts,
        begins=begins,
        ends=begins + lasts,
    )


def _reason(rank: int, chance: random.Random) -> Reason:
    if rank < 5:
        return Reason.EXCEPTION
    rest = 1000 - sum(OTHER_REASONS.values())
    return chance.choices([Reason.EXCEPTION, *OTHER_REASONS], [rest, *OTHER_REASONS.values()])[0]


def _traceback(frames: Sequence[str], error_type: str, chance: random.Random) -> str:
    """Write one as Python does: two to six kilobytes."""
    lines = ["Traceback (most recent call last):"]
    for frame in frames:
        path, _, function = frame.partition(":")
        lines.append(f'  File "/srv/app/releases/2026-11-02/{path}", line {chance.randint(10, 900)}, in {function}')
        lines.append(f"    return self._{function}(order, batch={chance.randint(1, 99)}, retry=True)")
        for depth in range(chance.randint(2, 7)):
            library = f"/srv/app/venv/lib/python3.11/site-packages/library{chance.randint(1, 40)}/module_{depth}.py"
            lines.append(f'  File "{library}", line {chance.randint(10, 2000)}, in call_{chance.randint(1, 500)}')
            lines.append(f"    response = self._inner.send(request, stream={depth}, verify=verify, cert=cert)")
    return "\n".join([*lines, f"{error_type}: {{text}}"])
