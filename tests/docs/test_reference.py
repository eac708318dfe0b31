"""The reference says what the code says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from celery_replay import policy
from celery_replay.states import Outcome, Verdict
from tests.docs.pages import pages, text_of
from tests.support.workers import ROOT

if not (ROOT / "docs").exists():
    pytest.skip("the docs are not beside these tests", allow_module_level=True)

from docs import generate

REFERENCE = [page for page in pages() if "/reference/" in page]
CODE = [*(ROOT / "celery_replay").rglob("*.py"), *(ROOT / "django_app").rglob("*.py")]


def rows(page: str) -> list[list[str]]:
    """Return the cells of all rows of a page's tables that begin with a code word."""
    lines = [line for line in text_of(f"docs/reference/{page}.md").splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


@pytest.mark.parametrize("page", REFERENCE)
def test_the_generated_parts_are_what_the_code_says_now(page: str) -> None:
    assert text_of(page) == generate.filled(text_of(page)), "run `make docs`, and commit what it changed"


@pytest.mark.parametrize(("page", "cells"), [("words", 2), ("errors", 3)])
def test_every_word_has_a_meaning_and_every_error_a_mend(page: str, cells: int) -> None:
    assert [row for row in rows(page) if len([cell for cell in row if cell]) < cells] == []


def test_the_options_of_tasks_are_those_of_the_code() -> None:
    assert {row[0].strip("`"): row[1] for row in rows("task-options")} == policy.OPTIONS


def test_every_event_and_its_attributes_are_documented() -> None:
    documented = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[2])) for row in rows("events") if len(row) == 3}
    recorded = dict(_recorded())
    assert {"started", "step_failed", "child_published"} <= recorded.keys()
    assert set(documented) == set(recorded), "events"
    assert {name: keys - documented[name] for name, keys in recorded.items() if keys - documented[name]} == {}
    assert not recorded.keys() & {str(word) for word in (*Outcome, *Verdict)}


def _recorded() -> Iterator[tuple[str, set[str]]]:
    """Yield the events that the code records by a name of its own, with the attributes that it writes there."""
    for call in (node for path in CODE for node in ast.walk(ast.parse(path.read_text()))):
        if not isinstance(call, ast.Call) or not call.args or not isinstance(call.args[0], ast.Constant):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in ("record", "note"):
            tables = [word.value for word in call.keywords if isinstance(word.value, ast.Dict)]
            yield str(call.args[0].value), {k.value for t in tables for k in t.keys if isinstance(k, ast.Constant)}


def test_every_warning_and_every_system_check_is_documented() -> None:
    code = "\n".join(path.read_text() for path in CODE)
    given = set(re.findall(r" \[([a-z]+(?:-[a-z]+)+)\]\"", code))
    given |= set(re.findall(r'"(celery_replay\.[EWI]\d+)"', code))
    assert {"unknown-setting", "celery_replay.E001"} <= given
    assert given - {row[0].strip("`") for row in rows("errors")} == set()
