"""A payload as it is, secrets and all: shown once, to whoever may and says why, and that is written down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.cache import add_never_cache_headers

from celery_replay.dead_letters import Decision
from celery_replay.records import Letter, Row
from celery_replay.replay import mending, message
from celery_replay.states import Verb

from ..conf import store
from .display import json_text, shown
from .payloads import DECODED_LIMIT, Part
from .permissions import PAYLOAD, actor
from .troubles import said


class ReasonForm(forms.Form):
    """Asks why."""

    text = forms.CharField(label="Reason", max_length=1_000, widget=forms.Textarea(attrs={"rows": 2, "cols": 60}))


def reveal(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show a letter's or a parked job's payload unredacted."""
    model_admin.require(request, PAYLOAD)
    record: Letter | Row = model_admin.record(request, object_id)
    form = ReasonForm(request.POST if "confirmed" in request.POST else None)
    context = {**model_admin.context(request, "Payload", record), "form": form}
    if form.is_valid():
        _write_down(record, Decision(verb=Verb.REVEALED, actor=actor(request), text=form.cleaned_data["text"]))
        context["payloads"] = list(_parts(record))
    response = TemplateResponse(request, "admin/django_celery_replay/reveal.html", context)
    add_never_cache_headers(response)
    return response


def _write_down(record: Letter | Row, decision: Decision) -> None:
    if isinstance(record, Letter):
        store().decide(record.submission, decision)
    else:
        store().write_down([(record.submission, decision)])


def _parts(record: Letter | Row) -> Iterator[Part]:
    yield from _payload("", record.message)
    if isinstance(record, Letter) and record.edited is not None:
        yield from _payload("Mended ", record.edited)


def _payload(which: str, packed: bytes) -> Iterator[Part]:
    try:
        payload = mending.plain(packed)
    except message.PayloadUnreadable as error:
        yield Part(title=f"{which}payload".capitalize(), note=f"{said(error)}.")
        return
    for title, value in (("args", payload.args), ("kwargs", payload.kwargs)):
        yield Part(title=f"{which}{title}", text=shown(json_text(value), DECODED_LIMIT))
