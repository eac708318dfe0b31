"""A payload mended: written as JSON, tried against today's task, looked at beside the original, then saved."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from celery_replay.dead_letters import Decision
from celery_replay.exceptions import ReplayError, TriageRefused
from celery_replay.records import Letter, evolve
from celery_replay.redaction import redact
from celery_replay.replay import fitting, mending
from celery_replay.replay import message as kept_messages
from celery_replay.replay.fitting import Mended, PayloadUnfit
from celery_replay.serialization import canonical_json
from celery_replay.states import Verb

from ..conf import store
from .differences import difference
from .display import json_text, shown
from .frozen import freeze, revision_in
from .payloads import DECODED_LIMIT
from .permissions import PAYLOAD, TRIAGE, actor
from .tasks import runtime_that_knows
from .troubles import said

CHANGED = "The letter changed since this page was opened. Open it anew, and write this there."


class PayloadForm(forms.Form):
    """Asks for the payload, and why it is another one."""

    args = forms.CharField(widget=forms.Textarea(attrs={"rows": 6, "cols": 80, "spellcheck": "false"}))
    kwargs = forms.CharField(widget=forms.Textarea(attrs={"rows": 10, "cols": 80, "spellcheck": "false"}))
    text = forms.CharField(label="Reason", max_length=1_000, widget=forms.Textarea(attrs={"rows": 2, "cols": 60}))

    def __init__(self, letter: Letter, data: Any = None, initial: Any = None) -> None:
        super().__init__(data, initial=initial)
        self.fields["args"].label, self.fields["kwargs"].label = "args", "kwargs"
        self._letter = letter
        self.mended: Mended | None = None

    def clean(self) -> None:
        """Put the payload together, and see whether the task takes it."""
        args, kwargs = self.cleaned_data.get("args"), self.cleaned_data.get("kwargs")
        if args is None or kwargs is None:
            return
        try:
            self.mended = _mended(self._letter, args, kwargs)
        except ReplayError as error:
            self.add_error(None, said(error))


def _mended(letter: Letter, args: str, kwargs: str) -> Mended:
    known = runtime_that_knows([letter.operation])
    task = known.app.tasks.get(letter.operation)
    if task is None:
        raise PayloadUnfit(f"task {letter.operation} is not registered here: nobody can say what it takes")
    return fitting.replaced(letter, known.policy(task), *mending.meant(letter.to_send, args, kwargs))


def edit(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Show a letter's payload to be mended; then the difference; then save it."""
    model_admin.require(request, TRIAGE, PAYLOAD)
    letter: Letter = model_admin.record(request, object_id)
    context = {**model_admin.context(request, "Edit the payload", letter), "mended": letter.edited is not None}
    if request.method != "POST":
        frozen = freeze([(model_admin.key(letter), letter.revision)])
        return _page(request, {**context, "letters": frozen.sign(), **begun_form(letter, PayloadForm)})
    revision = revision_in(request.POST.get("letters", ""), model_admin.key(letter))
    if "restore" in request.POST:
        return _save(model_admin, request, letter, None, "the original payload", revision)
    form = PayloadForm(letter, request.POST)
    if revision != letter.revision:
        # What was redacted on that page may be something else by now.
        form.is_valid()
        form.add_error(None, CHANGED)
    elif form.is_valid() and "save" in request.POST:
        return _save(model_admin, request, letter, form.mended, form.cleaned_data["text"], revision)
    mended = form.mended if form.is_valid() and "back" not in request.POST else None
    context |= {"letters": request.POST["letters"], "form": form, **(_looked_at(letter, mended) if mended else {})}
    return _page(request, context)


def _page(request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
    return TemplateResponse(request, "admin/django_celery_replay/edit.html", context)


def begun_form(letter: Letter, kind: type[PayloadForm]) -> dict[str, object]:
    """Return the form as it is at first, or why there is none."""
    try:
        readable = mending.readable(letter.to_send)
    except kept_messages.PayloadUnreadable as error:
        return {"problem": capfirst(said(error))}
    texts = {"args": json_text(readable.args), "kwargs": json_text(readable.kwargs)}
    if sum(map(len, texts.values())) > DECODED_LIMIT:
        return {"problem": "It is too large to be edited on a page."}
    return {"form": kind(letter, initial=texts)}


def _looked_at(letter: Letter, mended: Mended) -> dict[str, object]:
    meaning = redact(dict(mended.after))
    return {
        "looked": True,
        "difference": difference(letter.message, mended.message),
        "meaning": [(shown(name, 80), shown(json_text(value), 300)) for name, value in meaning.items()],
    }


def _save(
    model_admin: Any, request: HttpRequest, letter: Letter, mended: Mended | None, text: str, revision: int
) -> HttpResponse:
    decision = Decision(verb=Verb.EDITED, actor=actor(request), text=text, revision=revision)
    if mended is not None:
        details = canonical_json({"changed": mended.changed})
        decision = evolve(decision, edited=mended.message, details=details)
    try:
        store().decide(letter.submission, decision)
    except TriageRefused as refusal:
        messages.error(request, capfirst(said(refusal)))
    else:
        messages.success(
            request,
            "Its replay sends the original payload."
            if mended is None
            else "The mended payload is saved; a replay sends it.",
        )
    return HttpResponseRedirect(model_admin.url("change", model_admin.key(letter)))
