"""Shows what was measured: a table on a terminal, plain columns in a pipe, JSON in a file."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from . import budgets
from .filing import Beside
from .history import History
from .producer import Cost
from .slices import Standing

PACKAGES = ("celery", "kombu", "redis", "django", "psycopg", "celery-once", "celery-singleton", "django-celery-results")
OPTIONAL = ("orjson", "hiredis")


class Report:
    """Collects rows, prints tables, and remembers whether a budget was missed.

    Args:
        fsync: whether the database waits for the disk; where it doesn't, `synchronous_commit` means nothing.
    """

    def __init__(self, *, fsync: bool = True) -> None:
        self.fsync = fsync
        self.missed: list[str] = []
        self._standings: list[dict[str, Any]] = []
        self._costs: list[dict[str, Any]] = []
        self._filing: list[dict[str, Any]] = []
        self._history: list[dict[str, Any]] = []

    def standings(self, standings: Sequence[Standing]) -> None:
        """Show one pool's variants."""
        first = standings[0]
        rows = []
        for standing in standings:
            budget, verdict = self._judge(standing)
            self._standings.append({**_plain(standing), "budget": budget, "verdict": verdict})
            rows.append(
                (
                    standing.variant.name,
                    f"{standing.rate:.0f}",
                    standing.share.shown(),
                    standing.added_us.shown(0),
                    standing.cpu_share.shown(),
                    f"{standing.reads:.2f}",
                    str(standing.slices),
                    budget,
                    verdict,
                )
            )
        title = f"{first.pool}, body {first.body_ms} ms: share of plain Celery, median of paired slices (95 % interval)"
        header = ("variant", "tasks/s", "share", "added µs", "CPU share", "reads", "slices", "budget", "")
        show(title, header, rows)

    def _judge(self, standing: Standing) -> tuple[str, str]:
        name = standing.variant.name
        budget = budgets.SHARES.get((name, standing.pool, standing.body_ms))
        if budget is None:
            return "", ""
        if standing.variant.synchronous_commit == "on" and not self.fsync:
            return f"≥ {budget.least:.2f}", "not judged: fsync is off"
        verdict = budgets.judge_share(standing.share.value, standing.pool, budget)
        if verdict == "missed":
            self.missed.append(f"{name}, {standing.pool}: {standing.share.value:.2f} of plain, not {budget.least:.2f}")
        return f"≥ {budget.least:.2f} (aim {budget.aim:.2f})", verdict

    def costs(self, costs: Sequence[Cost]) -> None:
        """Show what publishing costs."""
        rows = []
        for cost in costs:
            most = budgets.PRODUCER.get(int(cost.size_kb)) if cost.kind == "a key declared" else None
            verdict = budgets.judge_producer(cost.ratio.value, most) if most else ""
            if verdict == "missed":
                self.missed.append(f"apply_async at {cost.size_kb:g} KB: {cost.ratio.value:.2f} of plain, not {most}")
            self._costs.append({**asdict(cost), "budget": most, "verdict": verdict})
            rows.append(
                (
                    cost.kind,
                    f"{cost.size_kb:g}",
                    f"{cost.plain_us:.0f}",
                    cost.ratio.shown(),
                    cost.added_us.shown(0),
                    f"≤ {most:.2f}" if most else "",
                    verdict,
                )
            )
        header = ("task", "KB", "plain µs", "over plain", "added µs", "budget", "")
        show("apply_async over plain Celery's, in one process (95 % interval)", header, rows)

    def filing(self, database: str, found: Sequence[Beside]) -> None:
        """Show what the jobs of other tasks notice of many letters."""
        rows = []
        for each in found:
            self._filing.append({**asdict(each), "database": database})
            rows.append(
                (
                    each.load.name,
                    f"{each.done_per_minute:,.0f}",
                    f"{each.job_ms:.2f}",
                    each.share.shown(),
                    each.late.shown(),
                )
            )
        title = f"OPEN and CLOSE of other tasks' jobs on {database} beside a load, over the same alone (95 % interval)"
        show(title, ("load", "a minute", "job ms", "rate over alone", "95th percentile over alone"), rows)

    def history(self, found: History) -> None:
        """Show what finished jobs cost in Redis."""
        self._history.append(asdict(found))
        most = "" if found.keyed else f"≤ {budgets.JOB_BYTES}"
        row = (
            "a key declared" if found.keyed else "no key",
            f"{found.sample_bytes:.0f}",
            f"{found.bytes_per_job:.0f}",
            most,
            f"{found.job_ms:.2f}",
            found.share.shown(),
            f"≥ {budgets.FLAT}",
        )
        if not found.keyed and found.bytes_per_job > budgets.JOB_BYTES:
            self.missed.append(f"{found.bytes_per_job:.0f} bytes for a finished job in Redis, not {budgets.JOB_BYTES}")
        if found.share.high < budgets.FLAT:
            self.missed.append(
                f"among {found.jobs:,} finished jobs {found.share.value:.2f} of the rate, not {budgets.FLAT}"
            )
        title = f"{found.jobs:,} finished jobs in Redis, and one more beside them"
        header = ("jobs", "bytes of the first", "of all", "budget", "job ms", "rate over that beside 1,000", "budget")
        show(title, header, [row])

    def save(self, path: Path) -> None:
        """Write all of it as JSON."""
        data = {
            "machine": machine(),
            "fsync": self.fsync,
            "workers": self._standings,
            "producer": self._costs,
            "filing": self._filing,
            "history": self._history,
        }
        path.write_text(json.dumps(data, indent=2) + "\n")


def _plain(standing: Standing) -> dict[str, Any]:
    plain = asdict(standing)
    return {**plain, "variant": standing.variant.name, "about": standing.variant.about}


def machine() -> dict[str, Any]:
    """Describe what was measured on, and with which versions."""
    found = {}
    for package in (*PACKAGES, *OPTIONAL):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return {"python": platform.python_version(), "system": platform.system(), "cpus": os.cpu_count(), **found}


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    if sys.stdout.isatty():
        try:
            _show_rich(title, header, rows)
        except ImportError:
            pass
        else:
            return
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
    sys.stdout.write("\n".join([title, *lines, "", ""]))
    sys.stdout.flush()


def _show_rich(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in header:
        table.add_column(name, justify="left" if name in (header[0], "budget", "") else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
