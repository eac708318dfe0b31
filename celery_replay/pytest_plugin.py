"""pytest collects `*.replay.json`: each is a job that failed once, run again as a dry run of today's code.

The app is named in pytest's settings, as `celery -A` takes it: `celery_replay_app = "shop"`. Without it nothing is
collected. No service is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

SETTING = "celery_replay_app"


class WentOtherwise(AssertionError):
    """A recorded job did not end as its bundle expects."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting."""
    parser.addini(
        SETTING, "the Celery app whose recorded jobs (*.replay.json) are tests, such as shop or shop.celery:app"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take bundles, where an app is named."""
    if file_path.name.endswith(".replay.json") and parent.config.getini(SETTING):
        return Bundle.from_parent(parent, path=file_path)
    return None


class Bundle(pytest.File):
    """A bundle."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield its only test."""
        yield RecordedJob.from_parent(self, name="dry_run")


class RecordedJob(pytest.Item):
    """A recorded job, which is run again."""

    funcargs: ClassVar[dict[str, Any]] = {}
    """There are plugins that take every test for a function."""

    def runtest(self) -> None:
        """Run it, and compare its end with what is expected."""
        from .dry_run.bundle import imported
        from .dry_run.engine import Engine

        recording, expected = imported(self.path.read_text())
        with Engine(_app(str(self.config.getini(SETTING)))) as engine:
            ran = engine.run(recording)
        if ran.comparison.ends is not expected:
            raise WentOtherwise(_told(ran, str(expected)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any) -> Any:
        """Tell how it went, without the way there."""
        return str(excinfo.value) if isinstance(excinfo.value, WentOtherwise) else super().repr_failure(excinfo, *args)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Name the file."""
        return self.path, None, self.path.name


def _app(name: str) -> Any:
    from celery.app.utils import find_app

    app: Any = find_app(name)
    app.loader.import_default_modules()
    return app


def _told(ran: Any, expected: str) -> str:
    """Say what went otherwise, and where."""
    comparison = ran.comparison
    lines = [f"expected: {expected}", f"came:     {comparison.ends}: {comparison.said}"]
    for pair in comparison.pairs:
        how = f"differs in {' and '.join(pair.differs)}" if pair.differs else "as then"
        lines.append(f"  {how}  then {pair.then}, now {pair.now}")
    lines += [f"  refused  {one}" for one in ran.report.blocked]
    lines.append(f"sandbox:  {ran.sandbox}")
    for stream in (ran.report.stdout, ran.report.stderr):
        if stream.text:
            lines.append(stream.text)
    return "\n".join(lines)
