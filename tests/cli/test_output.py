"""What was stored is shown as text, whatever it is."""

from __future__ import annotations

import contextlib
import io
import json

import pytest

from celery_replay.cli import output
from celery_replay.cli.results import Results
from celery_replay.trace import Recorder
from tests.cli.conftest import kept
from tests.conformance.callers import closes, runs

HOSTILE = "\x1b[31mred\x07 [bold]x[/bold]\r\n\u202egnp.exe\x9b2J\u2028end"
RAW = ("\x1b", "\x07", "\r", "\u202e", "\x9b", "\u2028")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch, rows, columns):
    monkeypatch.setenv("COLUMNS", "200")
    with contextlib.redirect_stdout(Terminal()) as out:
        output.print_rows(rows, columns, as_json=False)
    return out.getvalue()


LINES = (
    "trace list",
    "jobs find --trace trace",
    "jobs show a",
    "dlq list",
    "dlq show a",
    "dlq show a --reveal --because x",
    "dlq groups",
    "dlq group {group}",
    "dlq replay a --dry-run",
    "dlq replay a --because x --yes --include-unknown 1 --detach",
    "dlq discard a --because x",
    "dlq edit a --kwargs {{}} --args []",
    "dlq edit a --undo",
    "erase --job b --because x --yes",
)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("as_json", ["", " --json"])
def test_hostile_text_reaches_nobodys_terminal(shop, line, as_json):
    payload = json.dumps([[HOSTILE], {HOSTILE: HOSTILE, "password": HOSTILE}, {"chain": [{HOSTILE: HOSTILE}]}])
    message = kept(payload.encode(), routing_key=HOSTILE, exchange=HOSTILE)
    shop.app.tasks["shop.ship"].run = lambda *args, **kwargs: None
    shop.fails("a", message, type=HOSTILE, message=HOSTILE, traceback=HOSTILE, frames=(HOSTILE,))
    closes(shop.store, runs(shop.store, "b", claim=None, key=HOSTILE, worker=HOSTILE), claim=None, result=HOSTILE)
    shop.types("dlq assign a", HOSTILE)
    shop.types("dlq note a", HOSTILE)
    (group,) = shop.store.groups()
    shop.types(f"dlq note --group {group.group_id}", HOSTILE)
    shop.store.flush(advanced=["b"])
    printed = shop.types(line.format(group=group.group_id) + as_json)
    assert printed.exit_code in (0, 4)
    assert printed.stdout
    assert not [sign for sign in RAW if sign in printed.output]


def test_a_trace_of_hostile_words_is_plain_text(shop):
    runs(shop.store, "a", key=HOSTILE)
    recorder = Recorder("trace", "n", {"job": "task"})
    recorder.record(HOSTILE, domain=True, attributes={HOSTILE: HOSTILE})
    shop.store.flush(chunks=recorder.take())
    printed = shop.types("trace show a").output
    assert not [sign for sign in RAW if sign in printed]
    assert len(printed.splitlines()) == 2


def test_a_terminal_gets_a_table_by_rich_in_which_markup_is_text(monkeypatch):
    shown = on_terminal(monkeypatch, [{"id": "1", "error": "[bold]x[/bold] :smile:"}], ["id", "error"])
    assert "[bold]x[/bold] :smile:" in shown
    assert "\x1b[1m" in shown


def test_a_terminal_gets_aligned_text_where_rich_is_missing(monkeypatch):
    monkeypatch.setattr(output, "Console", None)
    rows = [{"id": "1", "x": "long"}, {"id": "10", "x": None}]
    assert on_terminal(monkeypatch, rows, ["id", "x"]) == "id  x\n1   long\n10\n"


def test_secrets_are_redacted_by_their_names_in_tables_and_json(capsys):
    row = {"id": "1", "data": {"token": "hunter2"}, "error_message": "password=hunter2"}
    output.print_rows([row], ["id", "data", "error_message"], as_json=False)
    output.print_rows([row], ["id"], as_json=True)
    shown = capsys.readouterr().out
    assert "hunter2" not in shown
    assert shown.count("[redacted]") == 4


def test_what_is_said_of_a_result_is_cut_and_json_has_it_all(capsys):
    row = {"verdict": "failed_again", "id": "1", "said": "x" * 5_000}
    Results(as_json=False).add(row, well=False)
    assert len(capsys.readouterr().out) < 500
    Results(as_json=True).add(row, well=False)
    assert json.loads(capsys.readouterr().out) == row


def test_a_long_cell_is_cut_and_json_has_it_all(capsys):
    row = {"id": "1", "text": "x" * 500}
    output.print_rows([row], ["text"], as_json=False)
    assert capsys.readouterr().out.splitlines()[1] == "x" * 79 + "…"
    output.print_rows([row], ["text"], as_json=True)
    assert json.loads(capsys.readouterr().out) == row
