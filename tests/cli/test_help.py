from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from celery_replay.cli import replay
from celery_replay.trace import Recorder
from tests.cli.conftest import kept
from tests.conformance.callers import claims, opens, runs

COMMANDS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands.md"


def every(group, path=()):
    yield path, group
    context = click.Context(group)
    for name in group.list_commands(context) if isinstance(group, click.Group) else ():
        yield from every(group.get_command(context, name), (*path, name))


COMMANDS = dict(every(replay))


def test_the_commands_are_these():
    assert {" ".join(path) for path, command in COMMANDS.items() if not isinstance(command, click.Group)} == {
        "derived check", "derived list", "derived rebuild",
        "dlq assign", "dlq discard", "dlq dry-run", "dlq edit", "dlq follow", "dlq group", "dlq groups",
        "dlq investigate", "dlq list", "dlq operations", "dlq operation", "dlq pause", "dlq resume", "dlq abort",
        "dlq note", "dlq quarantine", "dlq reopen", "dlq replay", "dlq show", "drain", "erase", "export",
        "failures explain", "failures rules",
        "jobs find", "jobs show", "leases list", "leases release", "leases show", "parked free", "parked list", "prune",
            "run",
        "snapshot diff", "snapshot list", "snapshot revert", "snapshot show", "status",
        "steward", "trace keep", "trace list", "trace show", "trace unkeep",
    }  # fmt: skip


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_has_an_example_that_the_command_line_takes(shop, path):
    shown = shop.types(" ".join((*path, "--help")))
    assert shown.exit_code == 0
    (example,) = [shlex.split(line) for line in shown.output.splitlines() if line.strip().startswith("celery -A shop")]
    assert example[:4] == ["celery", "-A", "shop", "replay"]
    assert tuple(example[4 : 4 + len(path)]) == path
    if "steward" not in example:
        assert shop.types("", *example[4:]).exit_code in (0, 1, 4)


@pytest.mark.skipif(not COMMANDS_PAGE.exists(), reason="the docs are not beside these tests")
def test_every_field_of_the_json_is_documented(shop):
    shop.fails("a", kept(b"[[5], {}, {}]"))
    owner = runs(shop.store, "owner")
    claims(shop.store, owner)
    opens(shop.store, "waits")
    recorder = Recorder("trace", "n", {})
    recorder.record("started")
    shop.store.flush(chunks=recorder.take())
    (failed,), (owned,) = shop.reads("jobs show a"), shop.reads("jobs show owner")
    decided = [shop.reads(line)[0] for line in ("dlq edit a --set order_id=7", "dlq assign a ann", "dlq groups")]
    (plan,), (counted,) = shop.reads("dlq replay a --dry-run"), shop.reads("prune --dry-run")
    (ran,) = shop.reads("run a --mode dry-run")
    (sent,) = shop.reads("dlq replay a --because x --yes --include-unknown 1 --detach")
    (stopped,) = shop.reads(f"dlq abort {sent['operation']} --because x")
    (operation,) = shop.reads(f"dlq operation {sent['operation']}")
    (real,) = shop.reads("run a --mode real --because x --yes --allow all --detach")
    (letter,), (group,) = shop.reads("dlq show a"), shop.reads(f"dlq group {decided[2]['group']}")
    parts = [failed["payload"], failed["attempts_ended"][0], owned["steps"][0]]
    parts += [letter["evidence"], letter["history"][0], letter["replayed_as"][0], plan["binding"], group]
    parts += [operation, operation["history"][0], real, *plan["effects"]]
    lists = [*shop.reads("trace show a"), *shop.reads("parked list"), *shop.reads("status")]
    shown = [failed, letter, plan, ran, sent, stopped, counted, *decided, *parts, *lists]

    words = set(re.findall(r"`(\w+)`", COMMANDS_PAGE.read_text()))
    assert {name for record in shown for name in record} - words == set()
