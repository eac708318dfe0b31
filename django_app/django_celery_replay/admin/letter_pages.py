"""What the page of one dead letter shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.http import HttpRequest
from django.utils.html import format_html

from celery_replay.records import HistoryEntry, Job, Letter, StepRecord
from celery_replay.replay.evidence import weigh
from celery_replay.states import Verb

from .. import models
from ..tables import JOBS
from ..text import token
from . import histories, payloads, timelines
from .commands import barred, decisions
from .differences import difference
from .display import NONE, badge, label, moment, shown, told, word
from .facts import Group, attempt_lines, evidence, step_lines
from .frozen import freeze
from .permissions import DRY_RUN, PAYLOAD, REPLAY, TRIAGE, missing
from .reading import EVENTS_SHOWN, LINES, attempts, history, many, steps


def letter_page(model_admin: Any, request: HttpRequest, letter: Letter) -> dict[str, Any]:
    """Return a letter's facts, evidence, history and payload, and what the visitor may do with it."""
    payload = not missing(request, PAYLOAD)
    entries = history(submission=letter.submission)
    jobs = _jobs(letter, entries)
    job = jobs.get(letter.submission)
    about = jobs.get(letter.replay, job)
    its_steps = steps(about.identity if about else letter.submission)
    tries = attempts(letter.submission)
    lines = timelines.draw(job, tries, payload=payload) if job else []
    return {
        "headline": (shown(letter.operation), badge(letter.state)),
        "groups": [
            _failure(model_admin, letter),
            _answers(letter, about, its_steps),
            _origin(model_admin, letter, known=job is not None),
            _triage(model_admin, letter),
        ],
        **_doing(model_admin, request, letter),
        "traceback": told(letter.traceback, 20_000),
        "attempts": attempt_lines(tries),
        "steps": step_lines(its_steps, payload),
        "lines": lines,
        "cut": len(lines) == EVENTS_SHOWN,
        "replays": list(_replays(model_admin, entries, jobs)),
        "history": list(histories.lines(entries, model_admin)),
        "most": LINES,
        "payload": payload,
        "payloads": payloads.message(letter.message, letter.operation) if payload else [],
        "mended": letter.edited is not None,
        "difference": difference(letter.message, letter.edited) if payload and letter.edited else None,
    }


def _jobs(letter: Letter, entries: Sequence[HistoryEntry]) -> dict[str, Job]:
    """Return the letter's own job and those of its replays, by their submissions."""
    names = [letter.submission, letter.replay, *(_replay(entry) for entry in entries)]
    rows = many(models.ProcessedJob, {token(name) for name in names if name})
    return {record.submission: record for record in map(JOBS.record_of, rows.values())}


def _replay(entry: HistoryEntry) -> str:
    return str(histories.details_of(entry).get("replay", ""))


def _failure(model_admin: Any, letter: Letter) -> Group:
    key = token(letter.group_id)
    return "Failure", [
        ("Reason", word(letter.reason)),
        ("Category", word(letter.category)),
        ("Error", shown(letter.error_type) or NONE),
        ("Message", told(letter.error_message) or NONE),
        ("Through", shown(letter.frames) or NONE),
        ("Attempts", letter.attempts),
        ("First seen", moment(letter.first_seen)),
        ("Last failed", moment(letter.last_failed)),
        ("Group", model_admin.link(models.LetterGroup, key, "all of this cause") if key else NONE),
    ]


def _answers(letter: Letter, job: Job | None, its_steps: Sequence[StepRecord]) -> Group:
    found = weigh(letter, job, its_steps)
    safe = label("good", "✓", "yes") if found.safe else label("bad", "?", "not known")
    return "Before a replay", [
        ("Is it safe to replay?", format_html("{} {}", safe, shown(found.safe_because))),
        ("Must the payload be mended?", shown(found.mend)),
        ("Is anything half done?", shown("; ".join(found.half_done)) or "nothing that is known"),
        ("Its effect", badge(found.effect)),
        ("The job is now", badge(job.status) if job else "not known: no record is left of it"),
        *(evidence(job) if job else ()),
    ]


def _origin(model_admin: Any, letter: Letter, *, known: bool) -> Group:
    submission = shown(letter.submission)
    job = model_admin.link(models.ProcessedJob, token(letter.submission), submission) if known else submission
    return "Origin", [
        ("Job and its trace", job),
        ("Task id", shown(letter.task_id)),
        ("Idempotency key", shown(letter.key) or NONE),
        ("Trace", shown(letter.trace_id)),
        ("Correlation", shown(letter.correlation_id)),
        ("Delivery", letter.generation),
        ("Worker", shown(letter.worker) or NONE),
        ("Code version", shown(letter.code_version) or NONE),
    ]


def _triage(model_admin: Any, letter: Letter) -> Group:
    url = model_admin.url("operation", token(letter.operation_id)) if letter.operation_id else ""
    return "Triage", [
        ("State", badge(letter.state)),
        ("Assigned to", shown(letter.assignee) or "nobody"),
        ("Resolved by", told(word(letter.resolved_how)) or NONE),
        ("Times replayed", letter.replays),
        ("Latest command", format_html('<a href="{}">what became of it</a>', url) if url else NONE),
        ("Payload", "mended: a replay sends that" if letter.edited is not None else "as it was sent"),
    ]


def _replays(model_admin: Any, entries: Sequence[HistoryEntry], jobs: Mapping[str, Job]) -> Iterator[dict[str, object]]:
    """Tell of each replay: the job that it became, and how that stands."""
    for entry in entries:
        if entry.verb is not Verb.REPLAYED:
            continue
        details, job = histories.details_of(entry), jobs.get(_replay(entry))
        task_id = shown(str(details.get("task_id", "")), 100)
        yield {
            "at": moment(entry.at),
            "actor": shown(entry.actor, 150),
            "task": model_admin.link(models.ProcessedJob, token(job.submission), task_id) if job else task_id,
            "status": badge(job.status) if job else "not begun",
            "mended": bool(details.get("edited")),
        }


def _doing(model_admin: Any, request: HttpRequest, letter: Letter) -> dict[str, object]:
    key = model_admin.key(letter)
    urls = {name: model_admin.url(name) for name in ("decide", "replay", "trial")}
    urls |= {name: model_admin.url(name, key) for name in ("edit", "fork", "reveal")}
    return {
        "letters": freeze([(key, letter.revision)]).sign(),
        "decisions": list(decisions(letter)),
        "urls": urls,
        "triage_missing": missing(request, TRIAGE),
        "replay_missing": missing(request, REPLAY),
        "edit_missing": missing(request, TRIAGE, PAYLOAD),
        "dry_run_missing": missing(request, DRY_RUN),
        "fork_missing": missing(request, DRY_RUN, PAYLOAD),
        "replay_barred": barred(letter, Verb.REPLAYED),
        "edit_barred": barred(letter, Verb.EDITED),
    }
