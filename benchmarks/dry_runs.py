"""What a dry run costs: jobs of the example project, run again, several at a time.

python -m benchmarks.dry_runs [--letters 100] [--jobs 1]
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


def main() -> None:
    """Let jobs fail, dry-run them, and say how many a second and core that makes."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="celery-replay-bench-") as folder, _shop(folder) as app:
        from celery_replay.dry_run import letters as dry_runs
        from celery_replay.dry_run.engine import Engine
        from celery_replay.dry_run.several import run_several
        from celery_replay.dry_run.verdicts import Verdicts
        from celery_replay.runtime import runtime_of

        store = runtime_of(app).store
        letters = _failed(app, store, options.letters)
        verdicts = Verdicts()
        with Engine(app) as engine:
            # The template is made once.
            begin = partial(dry_runs.begin, engine, store)
            list(run_several(letters[:1], begin, 1))
            began, used = time.monotonic(), _used()
            for letter, ran in run_several(letters, begin, options.jobs):
                verdicts.add(letter.group_id, ran)
        took, cpu = time.monotonic() - began, _used() - used
        count = len(letters)
        sys.stdout.write(f"{verdicts.whole()}\n{count / took:.1f} per second, {count / cpu:.1f} per second and core\n")
        sys.stdout.write(f"{cpu / count * 1000:.1f} ms of a core each\n")


def _used() -> float:
    """Return the seconds of a core that this process has used, and those that it has forked."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(found.ru_utime + found.ru_stime for found in map(resource.getrusage, who))


@contextmanager
def _shop(folder: str) -> Iterator[Any]:
    os.environ |= {"SHOP_DATA_DIR": folder, "SHOP_RELEASE": "1"}
    from example_project.shop_project.celery import app

    app.conf.replay_eager = "record"
    app.loader.import_default_modules()
    from django.core.management import call_command

    for alias in ("default", "replay"):
        call_command("migrate", database=alias, verbosity=0)
    yield app


def _failed(app: Any, store: Any, count: int) -> list[Any]:
    """Let so many customers' first orders fail to be thanked for."""
    from example_project.shop import partners
    from example_project.shop.models import Customer, Order

    partners.send_gift = lambda number: f"G-{number}"
    for number in range(count):
        customer = Customer.objects.create(name=f"Customer {number}")
        order = Order.objects.create(number=f"O-{number}", customer=customer, total_cents=1_000)
        app.tasks["example_project.shop.tasks.thank_customer"].apply((order.pk,))
    found = list(store.every_letter())
    assert len(found) == count, Counter(letter.error_type for letter in found)
    return found


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dry_runs", description=__doc__)
    parser.add_argument("--letters", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
