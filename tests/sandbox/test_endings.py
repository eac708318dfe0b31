"""However a child ends, the parent has a clear report, no zombie and no descriptor too many."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import psutil
import pytest

from celery_replay.sandbox import Report, answers, child
from tests.sandbox.conftest import Runs


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    process = psutil.Process()
    before = process.num_fds()
    yield
    assert process.num_fds() == before
    assert [child for child in process.children() if child.status() == psutil.STATUS_ZOMBIE] == []


def test_a_body_returns_what_json_can_say(runs: Runs) -> None:
    value = {"a": [1, 2.5, None, "ö\ud800", 10**30]}
    report = runs(lambda: value)
    assert (report.ok, report.value, report.unreadable) == (True, value, 0)
    assert report.heading().splitlines()[1] == "returned"


def deep() -> Any:
    return deep()


def nested() -> Any:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def leave() -> NoReturn:
    sys.exit("done")


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


class Spiteful(Exception):
    def __str__(self) -> str:
        raise ValueError


def spiteful() -> NoReturn:
    raise Spiteful


ERRORS: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: 1 // 0, "body", "builtins.ZeroDivisionError"),
    (deep, "body", "builtins.RecursionError"),
    (leave, "body", "builtins.SystemExit"),
    (interrupt, "body", "builtins.KeyboardInterrupt"),
    (spiteful, "body", f"{__name__}.Spiteful"),
    (nested, "result", "builtins.RecursionError"),
    (circle, "result", "builtins.ValueError"),
    (object, "result", "builtins.TypeError"),
    (lambda: "x" * 10**9, "result", "builtins.ValueError"),
    (lambda: [0] * answers.VALUE_LIMIT, "result", "builtins.ValueError"),
]


@pytest.mark.parametrize(("body", "stage", "kind"), ERRORS, ids=lambda value: getattr(value, "__name__", None))
def test_an_error_is_told_with_its_stage(body: Callable[[], Any], stage: str, kind: str, runs: Runs) -> None:
    report = runs(body)
    assert report.error is not None
    assert (report.error.stage, report.error.type, report.died) == (stage, kind, "")
    assert f"failed in {stage}: {kind}" in report.heading()
    assert "Traceback" in report.error.traceback


def test_an_error_of_prepare_is_told_and_the_body_does_not_run(runs: Runs, folder: Path) -> None:
    report = runs((folder / "ran").touch, prepare=lambda: 1 // 0)
    assert report.error is not None
    assert (report.error.stage, report.layers) == ("prepare", None)
    assert not (folder / "ran").exists()
    assert report.heading().startswith("nothing was enforced")


def test_secrets_in_what_an_error_says_are_not_told(runs: Runs) -> None:
    secret = "hunter" + "22"

    def body() -> NoReturn:
        raise ValueError(f"password={secret}")

    error = runs(body).error
    assert error is not None
    assert secret not in error.message + error.traceback


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash() -> None:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    signal.raise_signal(signal.SIGSEGV)


@pytest.mark.parametrize(
    ("body", "died"),
    [
        (lambda: os._exit(7), "exited with 7"),
        (lambda: os._exit(0), "exited with 0"),
        (killed, "killed by SIGKILL"),
        (crash, "killed by SIGSEGV"),
        (os.abort, "killed by SIGABRT"),
    ],
    ids=["exit 7", "exit 0", "killed", "crash", "abort"],
)
def test_a_child_that_dies_is_told_of(body: Callable[[], Any], died: str, runs: Runs) -> None:
    report = runs(body)
    assert (report.died, report.error, report.ok) == (died, None, False)
    assert report.layers is not None
    assert f"ended without an answer: {died}" in report.heading()


def test_what_it_tried_before_it_died_is_known(runs: Runs, tmp_path: Path) -> None:
    def body() -> None:
        with contextlib.suppress(PermissionError):
            (tmp_path / "outside").write_text("x")
        os._exit(1)

    assert [blocked.what for blocked in runs(body).blocked] == ["open"]


@pytest.mark.parametrize("ignores", [False, True])
def test_a_body_that_never_ends_is_killed_at_the_deadline(ignores: bool, runs: Runs) -> None:
    def body() -> None:
        if ignores:
            for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(60)

    assert runs(body, timeout_s=0.5).died == "killed after 0.5 s"


def gone(path: Path) -> None:
    """Wait until the process whose number is in a file has ended."""
    pid = int(path.read_text())
    while Path(f"/proc/{pid}").exists() and "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
        time.sleep(0.01)


def outliving(folder: Path, end: Callable[[], Any]) -> Callable[[], Any]:
    def body() -> Any:
        reading, writing = os.pipe()
        if not os.fork():
            os.write(writing, b"x")
            while True:
                time.sleep(60)
        os.read(reading, 1)
        return end()

    def numbered() -> Any:
        before = os.fork

        def fork() -> int:
            pid = before()
            if pid:
                (folder / "grandchild").write_text(str(pid))
            return pid

        os.fork = fork  # type: ignore[assignment]
        return body()

    return numbered


@pytest.mark.parametrize(
    ("end", "died"), [(lambda: 1, ""), (lambda: os._exit(3), "exited with 3")], ids=["returns", "dies"]
)
def test_a_grandchild_does_not_outlive_it(end: Callable[[], Any], died: str, runs: Runs, folder: Path) -> None:
    assert runs(outliving(folder, end)).died == died
    gone(folder / "grandchild")


def test_a_grandchild_is_killed_at_the_deadline_too(runs: Runs, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = folder / "grandchild"
    # The deadline comes when the grandchild is there, however slow this machine is.
    clock = SimpleNamespace(monotonic=lambda: 1_000 * (there.exists() and there.read_text() != ""))
    monkeypatch.setattr(child, "time", clock)
    assert runs(outliving(folder, lambda: time.sleep(60))).died == "killed after 60 s"
    gone(there)


def test_a_grandchild_that_comes_back_from_the_body_has_no_answer(runs: Runs) -> None:
    def body() -> str:
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        return "parent" if pid else "child"

    report = runs(body)
    assert (report.value, report.unreadable) == ("parent", 0)


def test_a_thread_that_outlives_it_is_not_waited_for(runs: Runs) -> None:
    def body() -> int:
        threading.Thread(target=threading.Event().wait).start()
        return 1

    assert runs(body).value == 1


def each_descriptor(do: Callable[[int], Any]) -> None:
    for number in range(256):
        with contextlib.suppress(OSError):
            do(number)


def test_a_body_that_closes_all_descriptors_has_no_answer(runs: Runs) -> None:
    report = runs(lambda: each_descriptor(os.close))
    assert not report.ok
    assert report.died == "exited with 1"


@pytest.mark.parametrize("garbage", [b"\x00\xff", b"\n", b"[" * 100_000 + b"\n", b'{"blocked": 1}\n', b'{"value"'])
def test_garbage_in_every_descriptor_hides_no_answer(garbage: bytes, runs: Runs) -> None:
    report = runs(lambda: each_descriptor(lambda number: os.write(number, garbage)))
    assert report.ok
    assert report.stdout.size >= len(garbage)
    assert report.unreadable == (0 if garbage == b"\n" else 1)


def test_a_flood_in_the_result_pipe_ends_it(runs: Runs) -> None:
    def body() -> None:
        flood = b"x" * 2**20
        while True:
            each_descriptor(lambda number: os.write(number, flood) if number > 2 else None)

    assert runs(body).died == "it filled the result pipe with what is no answer"


def test_output_is_captured_from_all_that_print(runs: Runs) -> None:
    def body() -> None:
        sys.stdout.write("of Python\n")
        os.write(1, b"of C\n")
        sys.stderr.write("trouble")

    report = runs(body)
    assert sorted(report.stdout.text.splitlines()) == ["of C", "of Python"]
    assert report.stderr.text == "trouble"


def test_the_beginning_and_the_end_of_a_long_output_are_kept(runs: Runs) -> None:
    def body() -> None:
        sys.stdout.write("begin\n")
        for _ in range(100):
            sys.stdout.write("x" * 10**6)
        sys.stdout.write("end\n")

    report = runs(body)
    assert report.ok
    assert report.stdout.size > 10**8
    assert len(report.stdout.text) < 70_000
    assert report.stdout.text.startswith("begin")
    assert report.stdout.text.endswith("end\n")


def test_what_is_put_in_place_of_the_captured_output_is_not_read(runs: Runs, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")

    def body() -> None:
        sys.stdout.write("said\n")
        (folder / "stdout.txt").unlink()
        (folder / "stdout.txt").symlink_to(tmp_path / "secret")

    assert runs(body).stdout.text == "said\n"


def test_what_waits_in_the_parents_buffer_is_printed_once(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading) as printed:
        monkeypatch.setattr(sys, "stdout", stream)
        stream.write("before\n")
        assert runs(lambda: sys.stdout.write("inside\n")).stdout.text == "inside\n"
        stream.close()
        assert printed.read() == "before\n"


def test_handlers_of_the_parent_do_not_run_in_the_child(runs: Runs) -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        report = runs(lambda: os.kill(os.getpid(), signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert report.died == "killed by SIGTERM"


def test_attempts_without_end_are_told_up_to_a_limit(runs: Runs) -> None:
    def body() -> str:
        for _ in range(answers.BLOCKED_LIMIT + 10):
            with contextlib.suppress(PermissionError):
                os.mkdir("/nowhere")  # noqa: PTH102 - the shortest attempt
        return "went on"

    report = runs(body)
    assert (report.value, len(report.blocked)) == ("went on", answers.BLOCKED_LIMIT)


def test_a_report_is_data(runs: Runs) -> None:
    from dataclasses import asdict

    report: Report = runs(lambda: [1])
    assert json.loads(json.dumps(asdict(report)))["value"] == [1]


def test_a_folder_that_is_not_there_is_refused_before_anything_runs(folder: Path) -> None:
    from celery_replay import sandbox

    with pytest.raises(FileNotFoundError):
        sandbox.run(lambda: 1, folder=folder / "missing", timeout_s=60)


def test_a_last_word_that_comes_between_two_looks_is_heard(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = child._Child.has_ended

    def late(one: child._Child) -> bool:
        # The pipe was empty a moment ago; now it has all that there will be.
        while not looks(one):
            time.sleep(0.01)
        return True

    monkeypatch.setattr(child, "_GLANCE_S", 0)
    monkeypatch.setattr(child._Child, "has_ended", late)
    report = runs(lambda: "said")
    assert (report.value, report.died) == ("said", "")
