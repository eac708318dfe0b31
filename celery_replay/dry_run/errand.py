"""A process of its own for dry runs that a worker was asked for: `python -c`, with the errand on standard input.

A worker's own process must not be forked for that. It may have threads, whose locks would stay shut in the child and
whose connections Python drops there, which says goodbye to their servers; here there is one thread, and what it
connects to is its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any, NoReturn

from celery.app.utils import find_app

from ..exceptions import ErrandFailed
from ..runtime import runtime_of
from ..sandbox import libc
from .orders import Order
from .trials import carry_out

COMMAND = "from celery_replay.dry_run.errand import main; main()"


def run(app_name: str, order: Order) -> None:
    """Do an order in a new process, and wait for its end.

    Args:
        app_name: as `celery -A` takes it.

    Raises:
        ErrandFailed: it ended otherwise than by itself.
    """
    errand = json.dumps({"path": sys.path, "app": app_name, "parent": os.getpid(), "order": order.pack()})
    done = subprocess.run([sys.executable, "-c", COMMAND], input=errand.encode(), stderr=subprocess.PIPE, check=False)
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ErrandFailed(f"the process for dry runs ended with {done.returncode}: {lines[-1] if lines else ''}")


def name_of(app: Any) -> str:
    """Find out how `celery -A` would take an app: by its setting, else by the module that has it.

    Raises:
        ErrandFailed: no module has it, so that another process can't be told which one it is.
    """
    named = runtime_of(app).settings.app
    if named:
        return named
    for name, module in [*sys.modules.items()]:
        for attribute, value in [*getattr(module, "__dict__", {}).items()]:
            if value is app and name != "__main__" and not name.startswith("celery."):
                return f"{name}:{attribute}"
    raise ErrandFailed("no module has this app; name it by the setting replay_app, such as shop.celery:app")


def main() -> None:
    """Do what standard input says."""
    errand = json.load(sys.stdin)
    _end_with(errand["parent"])
    sys.path[:] = errand["path"]
    app = find_app(errand["app"])
    app.set_current()
    app.set_default()
    app.loader.import_default_modules()
    app.finalize()
    carry_out(app, Order.unpack(errand["order"]))


def _end_with(parent: int) -> None:
    """End when the worker does, and clean up."""
    signal.signal(signal.SIGTERM, _end)
    if sys.platform == "linux":
        libc.prctl(libc.PARENT_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit(1)


def _end(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)
