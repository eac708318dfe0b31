"""What somebody waits for, given free by a person: a parked job, or a resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from celery_replay.exceptions import TriageRefused
from celery_replay.records import Lease, Row
from celery_replay.states import RowStatus

from ..conf import store
from .permissions import TRIAGE, actor
from .revealing import ReasonForm
from .troubles import said

FREE = (RowStatus.PARKED, RowStatus.RELEASED)
"""Stations of a row that can be freed."""


def free(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Release a parked job; the steward sends it."""

    def act(row: Row, text: str) -> str:
        store().free(row.submission, actor(request), text)
        return "It is released: the steward sends it at once, and its admission is asked anew."

    return _confirmed(model_admin, request, object_id, ("Free a parked job", "free.html"), act)


def release(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Take a resource from a holder that has gone silent."""

    def act(lease: Lease, text: str) -> str:
        store().free_lease(lease.resource, actor(request), text)
        return "It is free: the steward calls whoever is next."

    return _confirmed(model_admin, request, object_id, ("Free a resource", "release.html"), act)


def _confirmed(
    model_admin: Any, request: HttpRequest, object_id: str, asks: tuple[str, str], act: Callable[[Any, str], str]
) -> HttpResponse:
    """Ask for a reason, then act on a record.

    Args:
        asks: the title and the template of the question.
        act: takes the record and the reason; returns what to tell.
    """
    model_admin.require(request, TRIAGE)
    record = model_admin.record(request, object_id)
    form = ReasonForm(request.POST if "confirmed" in request.POST else None)
    if not form.is_valid():
        title, template = asks
        context = {**model_admin.context(request, title, record), "form": form}
        return TemplateResponse(request, f"admin/django_celery_replay/{template}", context)
    try:
        done = act(record, form.cleaned_data["text"])
    except TriageRefused as refusal:
        messages.error(request, capfirst(said(refusal)))
    else:
        messages.success(request, done)
    return HttpResponseRedirect(model_admin.url("change", model_admin.key(record)))
