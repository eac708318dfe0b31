"""A parked job sent before its time."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from celery_replay.exceptions import TriageRefused
from celery_replay.records import Row
from celery_replay.states import RowStatus

from ..conf import store
from .permissions import TRIAGE, actor
from .revealing import ReasonForm
from .troubles import said

FREE = (RowStatus.PARKED, RowStatus.RELEASED)
"""Stations of a row that can be freed."""


def free(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Release a parked job; the steward sends it."""
    model_admin.require(request, TRIAGE)
    row: Row = model_admin.record(request, object_id)
    form = ReasonForm(request.POST if "confirmed" in request.POST else None)
    if not form.is_valid():
        context = {**model_admin.context(request, "Free a parked job", row), "form": form}
        return TemplateResponse(request, "admin/django_celery_replay/free.html", context)
    try:
        store().free(row.submission, actor(request), form.cleaned_data["text"])
    except TriageRefused as refusal:
        messages.error(request, capfirst(said(refusal)))
    else:
        messages.success(request, "It is released: the steward sends it at once, and its admission is asked anew.")
    return HttpResponseRedirect(model_admin.url("change", model_admin.key(row)))
