"""The page of one command about many letters: what became of each, as often as somebody looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.text import capfirst

from celery_replay.dead_letters import Decision
from celery_replay.exceptions import TriageRefused
from celery_replay.operations import allows, conditions, pending
from celery_replay.records import HistoryEntry, Operation
from celery_replay.replay.operations import Member, Standing, counts, members
from celery_replay.states import RowStatus, Verb

from ..conf import store
from ..models import DeadLetter, ParkedJob, ProcessedJob, ReplayOperation
from ..tables import OPERATIONS
from ..text import restored, token
from .display import badge, column, moment, short_moment, shown, told, word
from .histories import details_of
from .permissions import REPLAY, actor, missing
from .reading import LINES, history, many, one

_ORDER = (
    Standing.FAILED_AGAIN,
    Standing.LEFT_OUT,
    Standing.PENDING,
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
    """Show what became of each letter of a command, and how far an operation has come."""
    model_admin.require(request)
    row = one(ReplayOperation, token(id_in(operation_id)))
    found = OPERATIONS.record_of(row) if row is not None else None
    entries = entries_of(operation_id, known=found is not None)
    if any(entry.verb is Verb.TRIAL_WANTED for entry in entries):
        return HttpResponseRedirect(model_admin.url("trials", token(entries[0].operation_id)))
    items = members(entries)
    waiting = _waiting(items)
    waits = bool(waiting) or (found is not None and found.active)
    context = {
        **(_of_command(entries, items) if found is None else _of_operation(model_admin, request, found)),
        "counts": [(badge(standing), count) for standing, count in counts(items).items()],
        "lines": list(_lines(model_admin, items, waiting)),
        "led": not waits or store().overview(1).leader is not None,
        "cut": len(entries) >= MOST,
    }
    context = {**model_admin.context(request, context["headline"]), **context}
    return TemplateResponse(request, "admin/django_celery_replay/operation.html", context)


def _of_command(entries: Sequence[HistoryEntry], items: Sequence[Member]) -> dict[str, Any]:
    wanted = next((entry for entry in entries if entry.verb is not Verb.LEFT_OUT), entries[0])
    return {
        "headline": f"{_what(wanted)}: {len(items):,} dead letters",
        "began": moment(wanted.at),
        "actor": shown(wanted.actor, 150),
        "reason": told(wanted.text),
    }


def _of_operation(model_admin: Any, request: HttpRequest, found: Operation) -> dict[str, Any]:
    offered = ((verb, name) for verb, name in _BUTTONS if allows(found.state, verb))
    return {
        "headline": f"Replay of {found.total:,} dead letters",
        "began": moment(found.began_at),
        "actor": shown(found.actor, 150),
        "reason": told(found.reason),
        "state": badge(found.state),
        "said": told(found.said),
        "facts": list(_facts(found)),
        "buttons": list(offered),
        "missing": missing(request, REPLAY),
        "decide_url": model_admin.url("decide_operation", token(found.operation_id)),
        "history": [
            (moment(entry.at), word(entry.verb), shown(entry.actor, 150), told(entry.text))
            for entry in history(LINES, operation_id=found.operation_id, submission="")
        ],
    }


def _facts(found: Operation) -> Iterator[tuple[str, object]]:
    wanted = conditions(found)
    yield "Come to", f"{found.position:,} of {found.total:,}"
    yield "Sent", f"{found.sent:,}, of which {len(pending(found)):,} have not ended"
    yield "Ended", f"{found.resolved:,} well, {found.failed:,} failed again"
    yield "Left out since then", f"{found.left_out:,}"
    if wanted.canary:
        yield "Canary", f"{wanted.canary:,}" + (", which ended well" if found.proven else "")
    yield "At most", f"{f'{wanted.rate:g} a second, ' if wanted.rate else ''}{wanted.at_once:,} under way"
    stops = [f"{wanted.stop_after:,} failed again"] if wanted.stop_after else []
    if wanted.stop_above < 1:
        stops.append(f"more than {wanted.stop_above:.0%} of the last {wanted.of_last:,} did")
    yield "Stops itself when", ", or ".join(stops) or "never"
    if wanted.allow is not None:
        yield "Side effects", shown(", ".join(wanted.allow), 500)


_BUTTONS = ((Verb.PAUSED, "Pause"), (Verb.RESUMED, "Resume"), (Verb.ABORTED, "Abort"))


def _what(wanted: HistoryEntry) -> str:
    """Name what was to be done: where it was done with none of them, they say what was wanted."""
    return word(str(details_of(wanted).get("wanted", wanted.verb)))


def decide_operation(model_admin: Any, request: HttpRequest, operation_id: str) -> HttpResponse:
    """Pause an operation, let it go on, or end it."""
    model_admin.require(request, REPLAY)
    found = store().operation(id_in(operation_id))
    verb = next((verb for verb, _ in _BUTTONS if verb == request.POST.get("verb")), None)
    if found is None or verb is None:
        raise Http404("No operation has this id, or no such thing can be done with it.")
    text = request.POST.get("text", "").strip()[:1_000]
    decision = Decision(verb=verb, actor=actor(request), text=text, operation_id=found.operation_id)
    if verb is Verb.ABORTED and not text:
        messages.error(request, "Say why: what was not sent waits for somebody who reads it.")
    else:
        try:
            store().decide_operation(found.operation_id, decision)
        except TriageRefused as refusal:
            messages.error(request, capfirst(told(refusal.message)))
        else:
            messages.success(request, f"{capfirst(word(verb))}.")
    return HttpResponseRedirect(model_admin.url("operation", token(found.operation_id)))


def entries_of(key: str, *, known: bool = False) -> Sequence[HistoryEntry]:
    """Return a command's history.

    Args:
        key: its id, from an address.
        known: it is an operation that may have come to none of its letters.
    """
    found = [entry for entry in history(MOST, operation_id=id_in(key)) if entry.submission]
    if not found and not known:
        raise Http404("No command has this id. Records go when their time is over.")
    return found


def id_in(key: str) -> str:
    """Return a command's id from an address."""
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
