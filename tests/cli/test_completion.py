"""The shell completes commands and options; what the docs say of it is what works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.workers import SOURCES

COMMANDS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands.md"


def celery(**environment):
    """Run the `celery` command as a shell's completion does; return what it prints."""
    command = Path(sys.executable).with_name("celery")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES), **environment}
    return subprocess.run([command], env=env, capture_output=True, text=True, check=False, timeout=60).stdout


def completes(*words):
    """Ask what could stand in place of the last word, as bash does."""
    typed = {"COMP_WORDS": " ".join(("celery", *words)), "COMP_CWORD": str(len(words))}
    printed = celery(_CELERY_COMPLETE="bash_complete", **typed)
    return [line.partition(",")[2] for line in printed.splitlines()]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("-A", "shop", "replay", "dlq", "re"), ["reopen", "replay", "resume"]),
        (("-A", "shop", "replay", "pa"), ["parked"]),
        (("-A", "shop", "replay", "dlq", "replay", "--include"), ["--include-unknown"]),
        (("-A", "shop", "repl"), ["replay"]),
    ],
)
def test_commands_and_options_are_completed(words, found):
    assert completes(*words) == found


@pytest.mark.skipif(not COMMANDS_PAGE.exists(), reason="the docs are not beside these tests")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_line_gives_the_shell_a_script(shell):
    assert re.search(rf"_CELERY_COMPLETE={shell}_source celery", COMMANDS_PAGE.read_text())
    script = celery(_CELERY_COMPLETE=f"{shell}_source")
    assert f"_CELERY_COMPLETE={shell}_complete" in script
