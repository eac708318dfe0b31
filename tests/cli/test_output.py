"""What was stored is shown as text, whatever it is."""

from __future__ import annotations

import contextlib
import io
import json

import pytest

from celery_replay.cli import output
from celery_replay.trace import Recorder
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


@pytest.mark.parametrize("line", ["trace list", "jobs find --trace trace", "jobs show a", "dlq list", "dlq show a"])
@pytest.mark.parametrize("as_json", ["", " --json"])
def test_hostile_text_reaches_nobodys_terminal(shop, line, as_json):
    shop.fails("a", type=HOSTILE, message=HOSTILE, traceback=HOSTILE)
    closes(shop.store, runs(shop.store, "b", claim=None, key=HOSTILE, worker=HOSTILE), claim=None, result=HOSTILE)
    printed = shop.types(line + as_json)
    assert printed.exit_code == 0
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


def test_a_long_cell_is_cut_and_json_has_it_all(capsys):
    row = {"id": "1", "text": "x" * 500}
    output.print_rows([row], ["text"], as_json=False)
    assert capsys.readouterr().out.splitlines()[1] == "x" * 79 + "…"
    output.print_rows([row], ["text"], as_json=True)
    assert json.loads(capsys.readouterr().out) == row
