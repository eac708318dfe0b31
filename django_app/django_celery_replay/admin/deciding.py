"""Decisions, carried out: on one letter or on many, by the store, with one result for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from celery_replay import dead_letters
from celery_replay.dead_letters import Decision, leaving_out
from celery_replay.exceptions import TriageRefused
from celery_replay.records import evolve
from celery_replay.states import LetterState

from ..conf import store
from ..models import DeadLetter
from ..text import restored
from .batches import early, in_time
from .decisions import CHOICES, Choice, DecisionForm
from .display import badge, word
from .frozen import Frozen, thaw
from .operations import begun
from .permissions import actor
from .reading import many
from .troubles import said


def decide(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Ask for what a decision needs, and carry it out once it is complete."""
    choice = CHOICES.get(request.POST.get("verb", ""))
    if choice is None:
        raise BadRequest("There is no such decision.")
    model_admin.require(request, choice.permission)
    frozen = thaw(request.POST.get("letters", ""))
    if len(frozen) > 1 and not choice.for_many:
        raise BadRequest("This is decided one by one.")
    form = DecisionForm(choice, request.POST)
    if not form.is_valid():
        return ask(model_admin, request, choice, frozen, form)
    assignee = actor(request) if choice.name == "take" else form.cleaned_data.get("assignee", "")
    decision = Decision(verb=choice.verb, actor=actor(request), text=form.cleaned_data["text"], assignee=assignee)
    if len(frozen) == 1:
        return _one(model_admin, request, choice, frozen, decision)
    known = begun(frozen.operation_id)
    rest = {key: revision for key, revision in frozen.letters.items() if restored(key) not in known}
    done, trouble = in_time(_many(choice, rest, evolve(decision, operation_id=frozen.operation_id)))
    store().write_down([refused for refused in done if refused is not None])
    if len(done) == len(rest):
        return HttpResponseRedirect(model_admin.url("operation", frozen.operation_id))
    messages.warning(request, early(len(done), len(rest), trouble))
    return ask(model_admin, request, choice, frozen, form)


def ask(
    model_admin: Any, request: HttpRequest, choice: Choice, frozen: Frozen, form: DecisionForm | None = None
) -> HttpResponse:
    """Show what is about to be decided, and ask for what that needs."""
    context = {
        **model_admin.context(request, f"{choice.label.rstrip('…')}: {frozen.told}"),
        "choice": choice,
        "form": form or DecisionForm(choice),
        "frozen": frozen,
        "states": list(_states(choice, frozen)),
    }
    return TemplateResponse(request, "admin/django_celery_replay/decide.html", context)


def _states(choice: Choice, frozen: Frozen) -> Iterator[tuple[object, int, bool]]:
    found = Counter(row.state for row in many(DeadLetter, frozen.letters, "state").values())
    for text, count in found.most_common():
        state = LetterState.known_or_newer(text)
        yield badge(state), count, dead_letters.allows(state, choice.verb)


def _one(model_admin: Any, request: HttpRequest, choice: Choice, frozen: Frozen, decision: Decision) -> HttpResponse:
    ((key, revision),) = frozen.letters.items()
    try:
        _carry_out(choice, restored(key), decision, revision)
    except TriageRefused as refusal:
        messages.error(request, capfirst(said(refusal)))
    else:
        messages.success(request, f"{capfirst(word(choice.verb))}.")
    return HttpResponseRedirect(model_admin.url("change", key))


def _many(choice: Choice, letters: Mapping[str, int], decision: Decision) -> Iterator[tuple[str, Decision] | None]:
    """Decide about letters; yield for each None, or why it was left out."""
    for key, revision in letters.items():
        try:
            _carry_out(choice, restored(key), decision, revision)
        except TriageRefused as refusal:
            yield restored(key), leaving_out(decision, refusal.message)
        else:
            yield None


def _carry_out(choice: Choice, submission: str, decision: Decision, revision: int) -> None:
    store().decide(submission, evolve(decision, revision=revision if choice.pinned else None))
