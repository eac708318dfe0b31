"""Load a million dead letters, and measure what people and jobs ask: `python -m benchmarks.scale --help`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management import call_command

from celery_replay.clock import wall

from ..progress import progress, say
from ..report import machine, show
from . import databases, project
from .population import HOUR, Population


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; return 1 where a mark was missed."""
    options = _options(arguments)
    with ExitStack() as stack:
        url = options.url or databases.create(options.vendor, stack)
        project.setup(url)
        say(", ".join(f"{name} {found}" for name, found in machine().items() if found))
        population = Population(letters=options.letters, groups=options.groups, end=wall() // HOUR * HOUR)
        call_command("migrate", verbosity=0)
        if options.url is None:
            _load(options, population)
        report = _measure(options, population)
        if options.keep:
            stack.pop_all()
            say(f"kept; measure again with --url {url}, and drop it when you are done")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), **report}, indent=2) + "\n")
    return 1 if any(answer["verdict"] == "missed" for answer in report["answers"]) else 0


def _load(options: argparse.Namespace, population: Population) -> None:
    from . import loading

    begun = time.monotonic()
    rows = loading.load(population, options.processes if options.vendor == "postgresql" else 1)
    say(f"loaded {rows:,} rows in {time.monotonic() - begun:.0f} s")
    for table, size in loading.sizes().items():
        if size > 1 << 20:
            say(f"  {table}: {size / (1 << 20):,.0f} MB")


def _measure(options: argparse.Namespace, population: Population) -> dict[str, Any]:
    from django_celery_replay.store import DjangoStore

    from . import pages, questions
    from .questions import measure
    from .work import work

    store = DjangoStore("default")
    asked = [*questions.lists(store), questions.letter_page(store), *pages.pages(store)]
    asked = [question for question in (*asked, *work(store, population.causes)) if options.only in question.name]
    answers = measure(asked, options.rounds, progress)
    progress("")
    store.close_connections()
    rows = [
        (
            each.name,
            f"{each.median_ms:.1f}",
            f"{each.slowest_ms:.1f}",
            "" if each.found is None else str(each.found),
            "" if each.most_ms is None else f"< {each.most_ms:.0f}",
            each.verdict,
        )
        for each in answers
    ]
    show("milliseconds, median of rounds in turn", ("question", "median", "slowest", "found", "mark", ""), rows)
    return {
        "letters": options.letters,
        "vendor": options.vendor,
        "rounds": options.rounds,
        "answers": [{**asdict(each), "verdict": each.verdict} for each in answers],
    }


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--letters", type=int, default=1_000_000, help="how many; a million by default")
    parser.add_argument("--groups", type=int, default=5_000, help="how many causes they have; 5,000 by default")
    parser.add_argument("--vendor", choices=databases.VENDORS, default="postgresql", help="postgresql by default")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="that load, on PostgreSQL")
    parser.add_argument("--rounds", type=int, default=25, help="how often each question is asked; 25 by default")
    parser.add_argument("--only", default="", help="only questions with this in their names")
    parser.add_argument("--keep", action="store_true", help="leave the database, and say how to use it again")
    parser.add_argument("--url", help="measure in this database, which was kept")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
