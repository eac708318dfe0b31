"""Publishes tasks of one variant with `apply_async`, as many as its standard input asks for.

A process of its own per variant, since the packages that are compared would see each other's signals in one.
"""

from __future__ import annotations

import importlib
import os
import sys

from benchmarks.apps.common import TASK


def main(module: str) -> None:
    """Publish; each line of the input is a first number and a count."""
    if "DJANGO_SETTINGS_MODULE" in os.environ:
        importlib.import_module("django").setup()
    app = importlib.import_module(module).app
    app.finalize()
    task = app.tasks[TASK]
    for line in sys.stdin:
        first, count = map(int, line.split())
        for number in range(first, first + count):
            task.apply_async((number,))
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
