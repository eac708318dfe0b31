"""One run: load, ask, tell."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict

from django.core.management import call_command

from celery_replay.clock import wall
from django_celery_replay.store import DjangoStore

from ..progress import progress, say
from ..report import machine, show
from . import loading
from .pages import pages
from .population import HOUR, Population
from .questions import Answer, letter_page, lists, measure
from .work import work


def run(options: argparse.Namespace) -> list[str]:
    """Load unless that was done, and measure; return the names of the questions that missed their marks."""
    say(", ".join(f"{name} {found}" for name, found in machine().items() if found))
    population = Population(letters=options.letters, groups=options.groups, end=wall() // HOUR * HOUR)
    call_command("migrate", verbosity=0)
    if options.url is None:
        _load(population, options.processes if options.vendor == "postgresql" else 1)
    if options.trigrams:
        loading.make_trigrams()
    answers = _measure(options, population)
    _show(answers)
    if options.json:
        asked = {name: getattr(options, name) for name in ("letters", "groups", "vendor", "rounds", "trigrams")}
        found = [{**asdict(answer), "verdict": answer.verdict} for answer in answers]
        options.json.write_text(json.dumps({"machine": machine(), **asked, "answers": found}, indent=2) + "\n")
    return [answer.name for answer in answers if answer.verdict == "missed"]


def _load(population: Population, processes: int) -> None:
    begun = time.monotonic()
    rows = loading.load(population, processes)
    say(f"loaded {rows:,} rows in {time.monotonic() - begun:.0f} s")
    for table, size in loading.sizes().items():
        if size > 1 << 20:
            say(f"  {table}: {size / (1 << 20):,.0f} MB")


def _measure(options: argparse.Namespace, population: Population) -> list[Answer]:
    store = DjangoStore("default")
    asked = [*lists(store), letter_page(store), *pages(store), *work(store, population.causes)]
    answers = measure([question for question in asked if options.only in question.name], options.rounds, progress)
    progress("")
    store.close_connections()
    return answers


def _show(answers: Sequence[Answer]) -> None:
    rows = [
        (
            each.name,
            f"{each.median_ms:.1f}",
            f"{each.slowest_ms:.1f}",
            f"{each.cpu_ms:.1f}",
            "" if each.found is None else str(each.found),
            "" if each.most_ms is None else f"< {each.most_ms:.0f}",
            each.verdict,
        )
        for each in answers
    ]
    show(
        "milliseconds, median of rounds in turn",
        ("question", "median", "slowest", "own CPU", "found", "mark", ""),
        rows,
    )
