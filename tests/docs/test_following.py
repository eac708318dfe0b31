"""A page that does not say what happens is found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.output import Expectations, Mismatch
from tests.docs.pages import Block
from tests.docs.reader import Reader

ONE, OTHER = "0198f3a1c2d57e3f8a4b5c6d7e8f9012", "01a22c76f47b72cabbe53246d67819b9"


def block(text: str, language: str = "console") -> Block:
    return Block(page="docs/page.md", line=7, language=language, text=text)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path, {"redis://localhost:6379/0": "redis://elsewhere:1/2"})


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("one", "one\n"),
        ("a  b", "a     b"),
        ("begins …", "begins as it likes"),
        ("…\nlast", "first\nsecond\nlast"),
        ("first\n…", "first\nsecond\nlast"),
        ("first\n…\nlast", "first\nlast"),
        ("at 2026-03-29 12:00:00Z", "at 2027-01-02 03:04:05Z"),
        ("+  0.123s on celery@laptop/1", "+ 12.5s on celery@host.example/4711"),
        ("group 1f2e3d4c", "group dab24906"),
        (f"{ONE} twice {ONE}", f"{OTHER} twice {OTHER}"),
    ],
)
def test_what_differs_from_reader_to_reader_may_differ(shown: str, printed: str) -> None:
    Expectations().meet(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("one", "two"),
        ("one", "one\ntwo"),
        ("one\ntwo", "one"),
        ("one …", "two more"),
        ("first\n…\nlast", "first\nsecond"),
        ("id", f"{OTHER}"),
        (f"{ONE} twice {ONE}", f"{OTHER} twice {ONE}"),
    ],
)
def test_all_else_may_not(shown: str, printed: str) -> None:
    with pytest.raises(Mismatch):
        Expectations().meet(shown, printed)


def test_an_id_stands_for_the_readers_own_from_then_on() -> None:
    expectations = Expectations()
    expectations.meet(f"id {ONE}", f"id {OTHER}")
    assert expectations.own(f"show {ONE}") == f"show {OTHER}"
    with pytest.raises(Mismatch):
        expectations.meet(f"id {ONE}", f"id {ONE}")


def test_commands_are_run_in_the_folder_of_the_files_that_the_page_writes(reader: Reader) -> None:
    reader.follow(block("# shop/broker.py\nURL = 'redis://localhost:6379/0'\n", "python"))
    reader.follow(block("# shop/broker.py, at the end\nprint(URL)\n", "python"))
    reader.follow(block("$ python shop/broker.py\nredis://elsewhere:1/2\n$ echo \\\n> two lines\ntwo lines\n"))


@pytest.mark.parametrize(
    "wrong",
    [
        block("$ echo one\ntwo\n"),
        block("$ false\n"),
        block("$ python -c 'raise SystemExit(3)'\n"),
        block("no command\n"),
        block("x = 1\n", "python"),
        block("$ pip install 'celery-replay[nothing]'\n"),
        block("$ pip install a-package-that-is-not-here\n"),
    ],
    ids=lambda wrong: wrong.text.strip(),
)
def test_a_block_that_does_not_do_what_it_shows_fails_and_says_where(reader: Reader, wrong: Block) -> None:
    with pytest.raises(AssertionError, match=r"docs/page\.md:7"):
        reader.follow(wrong)


def test_a_module_that_no_command_runs_is_imported(reader: Reader) -> None:
    reader.follow(block("# shop.py\nimport nothing_of_this_name\n", "python"))
    with pytest.raises(AssertionError, match="nothing_of_this_name"):
        reader.prove()


def test_a_module_that_is_written_again_is_imported_before(reader: Reader) -> None:
    reader.follow(block("# shop.py\nimport nothing_of_this_name\n", "python"))
    with pytest.raises(AssertionError, match="nothing_of_this_name"):
        reader.follow(block("# shop.py\n", "python"))
