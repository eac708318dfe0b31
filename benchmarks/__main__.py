"""Measure celery-replay against plain Celery: `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from . import budgets
from .filing import beside
from .ground import Ground
from .history import measure as remember
from .producer import measure
from .progress import progress, say
from .report import Report, machine
from .slices import Plan, race
from .variants import PLAIN, POOLS, VARIANTS, Variant

BODIES = (0, 10, 50)
HISTORY = 1_000_000
"""Finished jobs among which others are measured."""
ENOUGH = 60
"""Slices per variant from which on medians can be trusted, and budgets are judged."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; return 1 where a budget was missed by more than noise."""
    options = _options(arguments)
    if options.list:
        sys.stdout.writelines(f"{variant.name:22}{variant.about}\n" for variant in VARIANTS)
        return 0
    pairs = options.pairs or (4 if options.quick else ENOUGH)
    plan = Plan(pairs=pairs, slice_s=options.slice, warm_up_s=1 if options.quick else 3)
    with ExitStack() as stack:
        ground = Ground(stack)
        report = Report()
        say(", ".join(f"{name} {found}" for name, found in machine().items() if found))
        if not options.no_workers:
            _race(options, plan, ground, report)
        if not options.no_producer:
            report.costs(measure(ground.redis_url(), pairs, progress))
        if not options.no_filing:
            for database in ("postgresql", "sqlite"):
                report.filing(database, beside(database, ground, pairs, 2 * options.slice, progress))
        if not options.no_history:
            jobs = 20_000 if options.quick else HISTORY
            for keyed in (False, True):
                report.history(remember(ground.redis_url(), jobs, pairs, keyed=keyed, tell=progress))
        if options.json:
            report.save(options.json)
    return _end(report, judged=pairs >= ENOUGH and not options.no_gate)


def _race(options: argparse.Namespace, plan: Plan, ground: Ground, report: Report) -> None:
    for pool in options.pool or POOLS:
        for body_ms in options.body or BODIES:
            variants = _variants(options, pool, body_ms)
            if len(variants) > 1 or options.variant:
                standings = race(variants, pool, body_ms, plan, ground, progress)
                report.fsync = ground.fsync
                progress("")
                report.standings(standings)


def _variants(options: argparse.Namespace, pool: str, body_ms: int) -> list[Variant]:
    wanted = {PLAIN, *options.variant} if options.variant else {variant.name for variant in VARIANTS}
    # The bodies that sleep are of interest in the pool that can hide nothing.
    sleeping = body_ms and pool != "solo" and not options.body
    return [
        variant
        for variant in VARIANTS
        if variant.name in wanted and pool in variant.pools and body_ms in variant.bodies and not sleeping
    ]


def _end(report: Report, *, judged: bool) -> int:
    noise = ", ".join(f"{share:.2f} {pool}" for pool, share in budgets.NOISE.items())
    say(f"noise: a miss by less than {noise} or {budgets.PRODUCER_NOISE:.2f} at the producer means nothing")
    for miss in report.missed:
        say(f"missed: {miss}")
    if report.missed and not judged:
        say("not judged: --no-gate, or too few slices")
    return 1 if report.missed and judged else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [variant.name for variant in VARIANTS]
    parser.add_argument("--quick", action="store_true", help="a smoke test: a few slices, nothing judged")
    parser.add_argument("--pool", action="append", choices=POOLS, help="only this pool; may be repeated")
    parser.add_argument("--body", action="append", type=int, choices=BODIES, help="only bodies of so many ms")
    parser.add_argument("--variant", action="append", choices=names, help="only this one beside plain Celery")
    parser.add_argument("--pairs", type=int, help=f"slices per variant; {ENOUGH} by default, 4 with --quick")
    parser.add_argument("--slice", type=float, default=0.5, help="seconds of a slice")
    parser.add_argument("--no-workers", action="store_true", help="leave the workers out")
    parser.add_argument("--no-producer", action="store_true", help="leave apply_async out")
    parser.add_argument("--no-filing", action="store_true", help="leave out the many letters of one cause")
    parser.add_argument("--no-history", action="store_true", help="leave out a million finished jobs in Redis")
    parser.add_argument("--no-gate", action="store_true", help="exit with 0 whatever the budgets say")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--list", action="store_true", help="list the variants")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
