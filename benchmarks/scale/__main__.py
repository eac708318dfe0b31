"""Load a million dead letters, and measure what people and jobs ask: `python -m benchmarks.scale --help`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ..progress import say
from . import databases, project


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; return 1 where a mark was missed."""
    options = _options(arguments)
    with ExitStack() as stack:
        url = options.url or databases.create(options.vendor, stack)
        project.setup(url)
        # Nothing that has to do with models can be imported before.
        from .run import run

        missed = run(options)
        if options.keep:
            stack.pop_all()
            say(f"kept; measure again with --url {url}, and drop it when you are done")
    return 1 if missed else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--letters", type=int, default=1_000_000, help="how many; a million by default")
    parser.add_argument("--groups", type=int, default=5_000, help="how many causes they have; 5,000 by default")
    parser.add_argument("--vendor", choices=databases.VENDORS, default="postgresql", help="postgresql by default")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="that load, on PostgreSQL")
    parser.add_argument("--rounds", type=int, default=25, help="how often each question is asked; 25 by default")
    parser.add_argument("--only", default="", help="only questions with this in their names")
    parser.add_argument("--trigrams", action="store_true", help="make the optional index for parts of an error's text")
    parser.add_argument("--keep", action="store_true", help="leave the database, and say how to use it again")
    parser.add_argument("--url", help="measure in this database, which was kept")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
