"""Runs recorded jobs in a sandbox: one process each, forked from this one, in which the project is loaded."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from ..exceptions import ReplayError
from ..policy import TaskPolicy
from ..replay.message import unpack_message
from ..runtime import runtime_of
from ..sandbox import child
from ..sandbox.report import Report
from ..snapshots.capture import BEFORE
from ..snapshots.tree import Tree
from .cache_record import CacheRecord
from .comparison import Comparison, compare
from .recording import Recording
from .rerun import rerun
from .variation import AS_RECORDED, Variation
from .varying import policy_of, varied

Data = dict[str, Any]


class NotRunnable(ReplayError):
    """The job can't be run again here; the message says why."""

    id = "not-runnable"


class Surroundings(Protocol):
    """What a framework has instead of its databases, mail, caches and files in a dry run."""

    def make_template(self, folder: Path, *, strict: bool) -> Any:
        """Make, once, what every run gets a copy of.

        Args:
            strict: refuse what is not enforced.

        Raises:
            ConfigurationError: it can't be made.
        """

    def layers(self, template: Any) -> str:
        """Say what holds a run beside the kernel; empty where nothing has to."""

    def prepare(self, template: Any) -> Collection[int]:
        """Connect to what a run may use, in its process before it is locked up; return the descriptors to keep."""

    def enter(
        self,
        template: Any,
        folder: Path,
        state: Tree | None,
        caches: CacheRecord,
        declared: Callable[[], Iterable[Any]],
    ) -> Data:
        """In the process of a run, before anything is asked of a database: go over to what is in the folder.

        Args:
            state: what the run begins with.
            caches: what it finds in caches.
            declared: computes what the task declares as its state today, for the types of it.

        Returns:
            What the report tells of it.
        """

    def told(self) -> Data:
        """Say after the body what went to mail and the like."""


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """What became of one."""

    recording: Recording = field(repr=False)
    report: Report
    found: Data | None
    comparison: Comparison
    layers: str = ""
    """What held it beside the kernel."""

    @property
    def sandbox(self) -> str:
        """What held it, in one line."""
        return "; ".join(filter(None, (str(self.report.layers or "not set up"), self.layers)))


class Begun:
    """One that is being done. To be looked at until it is over, and then finished; or abandoned."""

    def __init__(
        self, recording: Recording, running: child.Running, folder: Path, ignore: Sequence[str], layers: str
    ) -> None:
        self.running = running
        self._recording = recording
        self._folder = folder
        self._ignore = ignore
        self._layers = layers

    def look(self) -> bool:
        """Is it over? Does not wait."""
        return self.running.look()

    def finish(self) -> DryRun:
        """End it, and compare what became of it with what is recorded."""
        try:
            report = self.running.finish()
        finally:
            self.abandon()
        blocked, died = [*map(str, report.blocked)], report.died or str(report.error)
        found: Data | None = report.value if report.ok else None
        try:
            comparison = compare(self._recording, found, blocked, died, self._ignore)
        except (TypeError, ValueError, KeyError, AttributeError):
            # The body may write to the pipe, too.
            found, comparison = None, compare(self._recording, None, blocked, "its answer can't be read")
        return DryRun(recording=self._recording, report=report, found=found, comparison=comparison, layers=self._layers)

    def abandon(self) -> None:
        """End it, if that is not done yet, and remove what it left behind."""
        self.running.abandon()
        shutil.rmtree(self._folder, ignore_errors=True)


_MEMORY = Path("/dev/shm")
_PREFIX = "celery-replay-dry-run-"


def _sweep(where: Path) -> None:
    """Remove what engines left behind that were killed: recorded rows, in memory."""
    for folder in where.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not _is_alive(int(pid)) and folder.stat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class Engine:
    """Runs jobs of an app; a context manager, since it has a folder."""

    def __init__(self, app: Any, *, timeout_s: float = 60, require_kernel: bool = False) -> None:
        self._app = app
        self._timeout_s = timeout_s
        self._require_kernel = require_kernel
        self._tried = False
        self._stack = ExitStack()
        self._templates: dict[int, Any] = {}

    def __enter__(self) -> Engine:
        for name in _NEEDED:
            with suppress(ImportError):
                import_module(name)
        where = _MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())
        _sweep(where)
        prefix = f"{_PREFIX}{os.getpid()}-"
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix, dir=where)))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self, recording: Recording, variation: Variation = AS_RECORDED) -> DryRun:
        """Run a job as `begin` does, and wait for its end."""
        begun = self.begin(recording, variation)
        try:
            while not begun.look():
                child.wait([begun.running])
            return begun.finish()
        finally:
            begun.abandon()

    def begin(self, recording: Recording, variation: Variation = AS_RECORDED) -> Begun:
        """Begin to run a job as it is recorded, but for what is varied, with today's code.

        Raises:
            NotRunnable: today's code has no such task, or it is none of ours.
            VariationUnfit: it can't be varied so.
            PayloadUnfit: today's code can't be called with these arguments.
            ConfigurationError: the kernel's layers are required, and it has not got them; or the surroundings that the
                settings ask for can't be had.
        """
        task = self._task(recording.job.operation)
        policy = policy_of(task, runtime_of(self._app), variation)
        recording = varied(recording, policy, variation)
        surroundings: Surroundings | None = getattr(task, "replay_surroundings", None)
        _check_beginning(recording, variation, surroundings)
        template = self._template(surroundings) if surroundings is not None else None
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        hard, soft = _limits(task, recording)
        try:
            running = child.start(
                partial(_body, self._app, recording, variation, policy, soft, surroundings, template, folder),
                prepare=partial(surroundings.prepare, template) if surroundings is not None else None,
                folder=folder,
                # With what it publishes, it may take longer than alone.
                timeout_s=self._timeout_s if variation.follow else min(self._timeout_s, hard or self._timeout_s),
                require_kernel=self._require_kernel,
                tried=self._tried,
            )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._tried = True
        layers = surroundings.layers(template) if surroundings is not None else ""
        return Begun(recording, running, folder, variation.ignore, layers)

    def _task(self, name: str) -> Any:
        task = self._app.tasks.get(name)
        if task is None:
            raise NotRunnable(f"there is no task {name!r} in today's code")
        if not hasattr(task, "replay_target"):
            raise NotRunnable(f"task {name} is no ReplayTask any more")
        return task

    def _template(self, surroundings: Surroundings) -> Any:
        if id(surroundings) not in self._templates:
            folder = Path(tempfile.mkdtemp(prefix="template-", dir=self._folder))
            self._templates[id(surroundings)] = surroundings.make_template(folder, strict=self._require_kernel)
        return self._templates[id(surroundings)]


_NEEDED = ("time_machine", "kombu.transport.memory", "celery.backends.cache")
"""Imported once here, and not in each of the processes."""


def _limits(task: Any, recording: Recording) -> tuple[float | None, float | None]:
    """Return the hard and the soft time limit, the message's before the task's."""
    told = unpack_message(recording.message)["headers"].get("timelimit")
    hard, soft = told if isinstance(told, (list, tuple)) and len(told) == 2 else (None, None)
    return hard or task.time_limit, soft or task.soft_time_limit


def _check_beginning(recording: Recording, variation: Variation, surroundings: Surroundings | None) -> None:
    if variation.begin_with == BEFORE:
        return
    if recording.state(variation.begin_with) is None:
        known = ", ".join(recording.snapshots) or "none"
        raise NotRunnable(f"no snapshot {variation.begin_with!r} of this attempt is kept; there is {known}")
    if surroundings is None:
        raise NotRunnable("the task's class knows no database that could begin with a snapshot")


def _body(
    app: Any,
    recording: Recording,
    variation: Variation,
    policy: TaskPolicy,
    soft_limit_s: float | None,
    surroundings: Surroundings | None,
    template: Any,
    folder: Path,
) -> Data:
    """Run in the child, which is locked by now: what the project's own code does on the way is held, too."""
    state, caches = recording.state(variation.begin_with), CacheRecord(variation.cache)
    declared = partial(_declared, policy, recording)
    entered = surroundings.enter(template, folder, state, caches, declared) if surroundings is not None else {}
    found = rerun(app, recording, variation, policy, caches, soft_limit_s)
    told = surroundings.told() if surroundings is not None else {}
    return {**found, "cache_unknown": caches.unknown, "surroundings": {**entered, **told}}


def _declared(policy: TaskPolicy, recording: Recording) -> Iterator[Any]:
    payload = recording.payload
    for state in policy.state.values():
        with suppress(Exception):  # the run comes to it, too, and tells
            yield state(*payload.args, **payload.kwargs)
