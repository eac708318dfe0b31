"""The same shop, orders and faults on plain Celery and on celery-replay, side by side.

python -m example_project.demo
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from .harness.columns import COLUMNS
from .harness.letters import Triage
from .harness.mending import Mending
from .harness.processes import shop
from .harness.rounds import Outcome, play
from .harness.screen import Screen, make_screen
from .harness.verdict import complaints, conclusion, rows

INTRODUCTION = """\
{orders} orders: charged at a gateway, shipped by a carrier, points for the customer. Both partners are a real HTTP
server that does again what it is told again. Some customers click twice, some messages come twice, and workers are
killed in the middle of a job. {rounds} rounds, a minute or two. So that you needn't wait, leases take 3 s here, and
the broker gives a message again after 4 s. In the table "!" marks harm.
"""


def main() -> int:
    """Run the rounds; return 1 if celery-replay did harm, or if another column shows none."""
    options = arguments()
    folder = Path(tempfile.mkdtemp(prefix="celery-replay-demo-"))
    screen = make_screen()
    try:
        screen.say(INTRODUCTION.format(orders=options.orders, rounds=len(options.columns)))
        with ExitStack() as shops:
            outcomes = run(options, folder, screen, shops)
            found = tell(outcomes, screen)
    finally:
        screen.close()
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    for line in found + ([f"logs and databases: {folder}"] if options.keep else []):
        screen.say(line)
    return 1 if found else 0


def tell(outcomes: list[Outcome], screen: Screen) -> list[str]:
    """Show what came out of the rounds, and the second act; return what is wrong."""
    screen.table([outcome.column.name for outcome in outcomes], rows(outcomes))
    for outcome in outcomes:
        screen.say(conclusion(outcome))
    found = [complaint for outcome in outcomes for complaint in complaints(outcome)]
    ours = outcomes[-1]
    if ours.column.proves == "none":
        if ours.caught:
            show_trace(ours, ours.caught[0])
        found += Triage(ours.shop).act()
        found += Mending(ours.shop).act()
    return found


def show_trace(outcome: Outcome, order: str) -> None:
    """Show what celery-replay recorded of an order whose worker was killed."""
    print(f"\n{order}, whose worker was killed, as celery-replay recorded it:\n", flush=True)
    outcome.shop.manage("show_order", order, show=True)


def run(options: argparse.Namespace, folder: Path, screen: Screen, shops: ExitStack) -> list[Outcome]:
    """Play one round for each column asked for; the last one's shop stays open."""
    outcomes = []
    for column in COLUMNS:
        if column.name in options.columns:
            shops.close()
            running = shops.enter_context(shop(folder / column.name, column.env))
            outcomes.append(play(column, running, options.orders, options.seed, screen))
    return outcomes


def arguments() -> argparse.Namespace:
    """Read the command line."""
    names = [column.name for column in COLUMNS]
    parser = argparse.ArgumentParser(prog="python -m example_project.demo", description=__doc__)
    parser.add_argument("columns", nargs="*", default=names, metavar="COLUMN", help=str(names))
    parser.add_argument("--orders", type=int, default=40)
    parser.add_argument("--seed", type=int, default=7, help="draws the faults")
    parser.add_argument("--keep", action="store_true", help="keep logs and databases")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
