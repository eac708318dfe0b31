"""Each way out is really tried, and what is outside is compared afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from celery_replay.sandbox import Blocked, Report, audit, doing, inheritance, landlock
from tests.sandbox.attempts import BELOW, BY_INTERPRETER, Attempt
from tests.sandbox.conftest import Runs
from tests.sandbox.outside import Outside

ALL = {**{name: attempt for name, (attempt, _) in BY_INTERPRETER.items()}, **BELOW}


NOT_EVERYBODY_MAY = {
    "attribute",
    "database_client_in_c",
    "database_client_in_c_by_path",
    "device_in_the_folder",
    "file_opened_for_neither",
    "http_request",
    "mail",
    "memory_of_the_parent",
    "message_through_a_pair_of_streams",
    "namespace",
    "ring",
    "sibling",
    "shared_mapping_of_a_file_open_for_reading",
    "inherited_file_reopened",
    "tracing",
}
"""What fails here and there without a sandbox, too: for want of a privilege, or of a server that answers."""
ENDING = {"replaced_program", "program_of_c"}
"""What takes the place of the body."""


REFUSALS = (
    *("not permitted", "Permission denied", "PermissionError", "does not let", "cross-device", "OperationalError"),
    *("Bad file descriptor", "non-socket", "already connected"),
)


def tried(attempt: Attempt, outside: Outside) -> Callable[[], str]:
    def body() -> str:
        os.chdir(os.environ["TMPDIR"])
        try:
            attempt(outside)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "not refused"

    return body


def refused(report: Report) -> bool:
    return report.ok and any(words in report.value for words in REFUSALS)


@pytest.mark.usefixtures("kernel_alone")
@pytest.mark.parametrize("name", ALL)
def test_the_kernel_alone_lets_nothing_out(name: str, outside: Outside, runs: Runs) -> None:
    report = runs(tried(ALL[name], outside))
    outside.check()
    assert refused(report), report


@pytest.mark.usefixtures("kernel_alone")
@pytest.mark.parametrize("name", ALL)
def test_the_kernel_with_the_first_landlock_lets_nothing_out(
    name: str, outside: Outside, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 1)
    report = runs(tried(ALL[name], outside))
    outside.check()
    assert refused(report), report


@pytest.mark.usefixtures("enforced")
@pytest.mark.parametrize("name", ALL)
def test_all_layers_together_let_nothing_out(name: str, outside: Outside, runs: Runs) -> None:
    report = runs(tried(ALL[name], outside))
    outside.check()
    assert refused(report), report


@pytest.mark.parametrize("name", BY_INTERPRETER)
def test_what_the_interpreter_hears_of_is_named_and_stopped_without_the_kernel(
    name: str, outside: Outside, runs: Runs, old_kernel: None
) -> None:
    attempt, event = BY_INTERPRETER[name]
    report = runs(tried(attempt, outside))
    outside.check()
    assert refused(report), report
    assert [blocked.what for blocked in report.blocked] == [event]


@pytest.mark.parametrize("name", BY_INTERPRETER)
def test_what_the_interpreter_hears_of_is_named_where_the_kernel_refuses_it_too(
    name: str, outside: Outside, runs: Runs, enforced: None
) -> None:
    attempt, event = BY_INTERPRETER[name]
    assert [blocked.what for blocked in runs(tried(attempt, outside)).blocked] == [event]


@pytest.mark.parametrize("name", ["http_request", "shell", "program"])
def test_arguments_are_not_told(name: str, outside: Outside, runs: Runs) -> None:
    (blocked,) = runs(tried(ALL[name], outside)).blocked
    host, port = outside.tcp_address
    assert blocked.detail in {f"{host}:{port}", "touch"}


@pytest.mark.parametrize("name", sorted(ALL.keys() - NOT_EVERYBODY_MAY))
def test_without_a_sandbox_it_gets_out(
    name: str, outside: Outside, runs: Runs, old_kernel: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "install", lambda *_: None)
    monkeypatch.setattr(inheritance, "let_go_of_files", lambda _: None)
    monkeypatch.setattr(inheritance, "unshare_memory", lambda: None)
    report = runs(tried(ALL[name], outside))
    assert report.value == "not refused" or (name in ENDING and report.died == "exited with 0"), report


def test_a_change_of_mode_outside_is_named_and_not_made(outside: Outside, runs: Runs) -> None:
    report = runs(tried(lambda outside: outside.file.chmod(0o777), outside))
    outside.check()
    assert [str(blocked) for blocked in report.blocked] == [f"os.chmod {outside.file}"]


def test_a_body_that_swallows_the_refusal_is_told_of_under_its_step(outside: Outside, runs: Runs) -> None:
    def body() -> str:
        doing.set("charge")
        try:
            outside.file.write_text("x")
        except Exception:
            return "went on"
        return "wrote"

    report = runs(body)
    assert report.value == "went on"
    assert report.blocked == (Blocked(what="open", detail=str(outside.file), step="charge"),)
