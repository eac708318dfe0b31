"""The page of one command about many letters: what became of each, as often as somebody looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.html import format_html

from celery_replay.records import HistoryEntry
from celery_replay.replay import following
from celery_replay.replay.operations import Member, Standing, counts, members
from celery_replay.states import RowStatus, Verb

from ..conf import store
from ..models import DeadLetter, ParkedJob, ProcessedJob
from ..text import restored, token
from .display import badge, column, moment, short_moment, shown, told, word
from .histories import details_of
from .permissions import REPLAY, actor, missing
from .reading import history, many

_ORDER = (
    Standing.FAILED_AGAIN,
    Standing.LEFT_OUT,
    Standing.PENDING,
    Standing.STOPPED,
    Standing.RESOLVED,
    Standing.DONE,
)
"""What wants to be looked at comes first."""
MOST = 5_000
"""Entries of one command that are read: each letter has two or three."""


def begun(operation_id: str) -> dict[str, Verb]:
    """Return what a command did with the letters that it has come to: it may be sent twice, or have ended early."""
    return {item.submission: item.began.verb for item in members(history(MOST, operation_id=operation_id))}


def operation(model_admin: Any, request: HttpRequest, operation_id: str) -> HttpResponse:
    """Show what became of each letter of a command."""
    model_admin.require(request)
    entries = _entries(operation_id)
    items = members(entries)
    waiting = _waiting(items)
    wanted = next((entry for entry in entries if entry.verb is not Verb.LEFT_OUT), entries[0])
    context = {
        **model_admin.context(request, f"{_what(wanted)}: {len(items):,} dead letters"),
        "began": moment(wanted.at),
        "actor": shown(wanted.actor, 150),
        "reason": told(wanted.text),
        "counts": [(badge(standing), count) for standing, count in counts(items).items()],
        "lines": list(_lines(model_admin, items, waiting)),
        "stoppable": sum(row.status == RowStatus.RELEASED and not row.releases for row in waiting.values()),
        "led": not waiting or store().overview(1).leader is not None,
        "missing": missing(request, REPLAY),
        "stop_url": model_admin.url("stop", token(entries[0].operation_id)),
    }
    return TemplateResponse(request, "admin/django_celery_replay/operation.html", context)


def _what(wanted: HistoryEntry) -> str:
    """Name what was to be done: where it was done with none of them, they say what was wanted."""
    return word(str(details_of(wanted).get("wanted", wanted.verb)))


def stop(model_admin: Any, request: HttpRequest, operation_id: str) -> HttpResponse:
    """Call off the replays of a command that were not sent yet."""
    model_admin.require(request, REPLAY)
    operation_id = _entries(operation_id)[0].operation_id
    refusals = [refusal for _, refusal in following.stop(store(), operation_id, actor(request), "")]
    count = refusals.count("")
    messages.success(request, f"{count:,} replays were called off; {len(refusals) - count:,} had been sent before.")
    return HttpResponseRedirect(model_admin.url("operation", token(operation_id)))


def _entries(key: str) -> Sequence[HistoryEntry]:
    """Return a command's history.

    Args:
        key: its id, from an address.
    """
    found = [entry for entry in history(MOST, operation_id=_restored(key)) if entry.submission]
    if not found:
        raise Http404("No command has this id. Records go when their time is over.")
    return found


def _restored(key: str) -> str:
    try:
        return restored(unquote(key))
    except UnicodeError:
        return ""


def _waiting(items: Sequence[Member]) -> dict[str, ParkedJob]:
    """Return the rows of replays that have not begun, by the replay's submission as it is stored."""
    pending = [_replay(item.began) for item in items if item.standing is Standing.PENDING]
    return many(ParkedJob, [name for name in pending if name], "status", "releases", "wake_at")


def _replay(entry: HistoryEntry) -> str:
    return token(str(details_of(entry).get("replay", "")))


def _lines(model_admin: Any, items: Sequence[Member], waiting: Mapping[str, ParkedJob]) -> Iterator[dict[str, object]]:
    letters = many(DeadLetter, [token(item.submission) for item in items], "operation", "key")
    jobs = many(ProcessedJob, [name for name in map(_replay, (item.began for item in items)) if name], "task_id")
    for item in sorted(items, key=lambda item: _ORDER.index(item.standing)):
        letter, replay = letters.get(token(item.submission)), _replay(item.began)
        job = jobs.get(replay)
        yield {
            "letter": _letter(model_admin, letter) if letter else shown(item.submission, 100),
            "standing": badge(item.standing),
            "said": _place(waiting.get(replay)) if item.standing is Standing.PENDING else told(item.latest.text, 500),
            "replay": model_admin.link(ProcessedJob, replay, column(job.task_id)) if job else "",
        }


def _letter(model_admin: Any, letter: DeadLetter) -> object:
    return model_admin.link(DeadLetter, letter.pk, f"{column(letter.operation)} {column(letter.key or letter.pk, 60)}")


def _place(row: ParkedJob | None) -> object:
    if row is None:
        return "has begun"
    if row.status == RowStatus.RELEASED:
        return format_html("is to be sent at {}", short_moment(row.wake_at))
    return "is on its way" if row.status == RowStatus.SENT else "runs, or waits"
