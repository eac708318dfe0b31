"""A variant with its worker, its queue and its filler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace

import psutil
import redis

from tests.support.workers import QUIET, ROOT, SOURCES, WorkerOptions, WorkerProcess

from .ground import Ground
from .variants import Variant

QUEUE = "celery"
STEWARD_START_S = 20


@dataclass(frozen=True, kw_only=True)
class Slice:
    """What a worker did while it alone ran."""

    seconds: float
    tasks: int
    cpu_s: float
    """Of all the worker's processes, its steward included."""
    reads: int
    """Round trips that Redis saw, the result backend's included."""

    @property
    def rate(self) -> float:
        """Tasks per second."""
        return self.tasks / self.seconds

    @property
    def cpu_per_task(self) -> float:
        """Seconds of CPU time per task."""
        return self.cpu_s / self.tasks


class Contestant:
    """A variant that is up and warm, and runs only while it is measured."""

    def __init__(self, variant: Variant, pool: str, body_ms: int, ground: Ground) -> None:
        self.variant = variant
        self.pool = pool
        self.broker_url = ground.redis_url()
        self.redis = redis.Redis.from_url(self.broker_url)
        self._env = self._environment(body_ms, ground)
        options = WorkerOptions(
            app=f"benchmarks.apps.{variant.app}",
            pool=pool,
            broker_url=self.broker_url,
            result_backend=self._backend(),
            env=self._env,
            arguments=(*QUIET, "--prefetch-multiplier=4"),
            log_level="ERROR",
            ready_timeout_s=60,
        )
        self.worker = WorkerProcess(options, ground.folder)
        self.filler = self._start_filler()
        self._published = 0
        self._processes: list[psutil.Process] = []
        self.rate = 300.0
        """Tasks per second of the last slice: how many messages are wanted for the next."""

    def _backend(self) -> str | None:
        return self.broker_url if self.variant.redis_results else self.variant.backend or None

    def _environment(self, body_ms: int, ground: Ground) -> dict[str, str]:
        variant = self.variant
        env = {"BENCH_BODY_MS": str(body_ms), **variant.env}
        if variant.database:
            env["DJANGO_SETTINGS_MODULE"] = "benchmarks.django_settings"
            env["BENCH_DATABASE_URL"] = ground.database_url(variant)
            env["BENCH_SYNCHRONOUS_COMMIT"] = variant.synchronous_commit
        if variant.ours:
            env["BENCH_STORE"] = self.broker_url if variant.store == "redis" else variant.store
            env["BENCH_TASK_CLS"] = _task_class(variant)
        return env

    def _start_filler(self) -> subprocess.Popen[str]:
        chosen = {"CELERY_BROKER_URL": self.broker_url, "PYTHONPATH": os.pathsep.join(SOURCES)}
        if backend := self._backend():
            chosen["CELERY_RESULT_BACKEND"] = backend
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.filler", f"benchmarks.apps.{self.variant.app}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **self._env, **chosen},
            cwd=ROOT,
            text=True,
        )

    def start(self, warm_up_s: float) -> None:
        """Start the worker, let it run until it is warm, and stop it."""
        self.fill(warm_up_s)
        self.worker.start()
        time.sleep(warm_up_s)
        parent = psutil.Process(self.worker.pid)
        self._processes = [parent, *parent.children(recursive=True)]
        self._wait_for_steward()
        self._stop()

    def _wait_for_steward(self) -> None:
        """Let a spawned steward load all that it needs: seconds of CPU time that are spent once."""
        stewards = [process for process in self._processes if "celery_replay.steward" in " ".join(process.cmdline())]
        quiet, deadline = not stewards, time.monotonic() + STEWARD_START_S
        while not quiet and time.monotonic() < deadline:
            before = sum(map(_cpu, stewards))
            time.sleep(0.5)
            quiet = 0 < sum(map(_cpu, stewards)) - before < 0.05

    def end(self) -> None:
        """End worker and filler."""
        self.worker.kill()
        self.filler.kill()
        self.filler.wait()
        self.redis.flushdb()
        self.redis.close()

    def fill(self, seconds: float) -> None:
        """Have enough messages in the queue for a slice of this length; more are added than the next one needs."""
        wanted = int(self.rate * seconds * 2) + 20
        waiting = self._waiting()
        if waiting < wanted:
            self._publish(2 * wanted - waiting)

    def _publish(self, count: int) -> None:
        assert self.filler.stdin is not None
        assert self.filler.stdout is not None
        self.filler.stdin.write(f"{self._published} {count}\n")
        self.filler.stdin.flush()
        if self.filler.stdout.readline() != "done\n":
            raise RuntimeError(f"{self.variant.name}: the filler ended with {self.filler.wait()}")
        self._published += count

    def run(self, seconds: float) -> Slice:
        """Let the worker run for this long, and count what it does."""
        self.fill(seconds)
        begun = self._count()
        started = time.perf_counter()
        os.killpg(self.worker.pid, signal.SIGCONT)
        time.sleep(seconds)
        self._stop()
        ended = time.perf_counter()
        measured = _difference(begun, self._count(), ended - started)
        if not self.worker.running:
            raise RuntimeError(f"{self.variant.name}: the worker died\n{self.worker.log_tail()}")
        if not measured.tasks:
            raise RuntimeError(f"{self.variant.name}: no task in {seconds:g} s\n{self.worker.log_tail()}")
        self.rate = measured.rate
        return measured

    def _stop(self) -> None:
        # The whole group: a steward that went on would spend the time of the others.
        os.killpg(self.worker.pid, signal.SIGSTOP)

    def _count(self) -> Slice:
        # A task counts when its message leaves the queue: what is prefetched is the same at both ends of a slice.
        waiting = self._waiting()
        reads = self.redis.info("stats")["total_reads_processed"]
        return Slice(seconds=0, tasks=waiting, cpu_s=sum(map(_cpu, self._processes)), reads=reads)

    def _waiting(self) -> int:
        return int(self.redis.llen(QUEUE))


def _difference(begun: Slice, ended: Slice, seconds: float) -> Slice:
    return replace(
        begun,
        seconds=seconds,
        tasks=begun.tasks - ended.tasks,
        cpu_s=ended.cpu_s - begun.cpu_s,
        # Our own two questions at the end are among them.
        reads=ended.reads - begun.reads - 2,
    )


def _cpu(process: psutil.Process) -> float:
    """Return a process's CPU time in seconds, to the nanosecond where the system tells."""
    if sys.platform == "linux":
        # What clock_getcpuclockid(3) computes; /proc counts in hundredths of a second.
        return time.clock_gettime(~process.pid << 3 | 2)
    times = process.cpu_times()
    return float(times.user + times.system)


def _task_class(variant: Variant) -> str:
    return f"{'django_celery_replay' if variant.database else 'celery_replay'}:ReplayTask"
