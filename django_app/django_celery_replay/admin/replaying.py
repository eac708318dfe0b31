"""A real replay: looked at first, then sent by the core, with one result for each letter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from celery_replay.dead_letters import Decision
from celery_replay.records import evolve
from celery_replay.replay.plan import Hindrance, Item, Options, accept_unknown, preview
from celery_replay.replay.sending import Order, Sent, send
from celery_replay.runtime import Runtime
from celery_replay.states import Replays, Verb

from ..text import token
from .batches import early, in_time
from .deciding import leaving_out
from .display import told
from .frozen import Frozen, thaw
from .operations import begun
from .permissions import PAYLOAD, REPLAY, actor, missing
from .previews import lines, totals
from .tasks import runtime_that_knows

RATE = 10
"""Replays per second that are proposed for many: what failed together may fail together again."""


class ReplayForm(forms.Form):
    """Asks why, how fast, and what is accepted."""

    reason = forms.CharField(label="Reason", max_length=1_000, widget=forms.Textarea(attrs={"rows": 2, "cols": 60}))
    unknown = forms.CharField(label="Accept unknown effects", required=False, max_length=10)
    rate = forms.FloatField(
        label="At most per second", required=False, min_value=0.01, max_value=1_000, help_text="Empty: all at once."
    )
    trial = forms.IntegerField(
        label="Only the first",
        required=False,
        min_value=1,
        help_text="A trial: see how these end, then replay the others. Empty: all.",
    )
    with_canvas = forms.BooleanField(
        label="Send callbacks, errbacks and the rest of the chain on, too",
        required=False,
        help_text="What waited for them may have gone on meanwhile. A chord's part is never sent again.",
    )

    override_never = forms.BooleanField(
        label='Replay it although its task declares replay="never"',
        required=False,
        help_text="Tick it and look again. Whoever wrote the task expects harm from a second run.",
    )

    def __init__(self, unknown: int, count: int, data: Any, *, never: bool) -> None:
        super().__init__(data, initial={"rate": RATE if count > 1 else None})
        self._unknown = unknown
        self.fields["unknown"].help_text = (
            f"Of {unknown:,} of these nobody knows whether their side effects happened: a replay may repeat them. "
            f"Type {unknown} to send them as well; empty, they are left out."
        )
        if not unknown:
            del self.fields["unknown"]
        if count == 1:
            del self.fields["trial"], self.fields["rate"]
        if not never:
            del self.fields["override_never"]

    def clean_unknown(self) -> bool:
        """Tell whether the number was typed."""
        typed: str = self.cleaned_data["unknown"].strip()
        if typed and typed != str(self._unknown):
            raise forms.ValidationError(f"Type {self._unknown}, or nothing.")
        return bool(typed)


def replay(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Show what would be sent; send it once that was seen, and the form is complete."""
    model_admin.require(request, REPLAY)
    return look(model_admin, request, thaw(request.POST.get("letters", "")))


def look(model_admin: Any, request: HttpRequest, frozen: Frozen, *, only: bool = False) -> HttpResponse:
    """Show what would be sent of these letters, and what would not; or send it.

    Args:
        only: send nothing, whatever was pressed.
    """
    options = Options(with_canvas="with_canvas" in request.POST, override_never="override_never" in request.POST)
    # Pressed twice, or after an early end, a form is about those that it has not come to.
    known = begun(frozen.operation_id) if len(frozen) > 1 and "confirmed" in request.POST else {}
    runtime, items = _looked_at(frozen, options, known)
    if known and not items:
        return HttpResponseRedirect(model_admin.url("operation", frozen.operation_id))
    unknown = sum(item.hindrance is Hindrance.EFFECT_UNKNOWN for item in items)
    never = len(items) == 1 and items[0].rule is Replays.NEVER
    form = ReplayForm(unknown, len(frozen), request.POST if "looked" in request.POST else None, never=never)
    if "confirmed" in request.POST and not only and form.is_valid():
        order, chosen = _ordered(request, form.cleaned_data, options, items)
        if any(item.ready for item in chosen):
            trial = form.cleaned_data.get("trial")
            most = None if trial is None else max(trial - [*known.values()].count(Verb.REPLAYED), 0)
            return _send(model_admin, request, frozen, runtime, chosen, order, most)
        form.add_error(None, "Nothing would be sent; the reason stands beside each.")
    context = {
        **model_admin.context(request, f"Replay: {frozen.told}"),
        "form": form,
        "frozen": frozen,
        "gone": len(frozen) - len(items) - len(known),
        "totals": totals(items),
        "lines": list(lines(model_admin, items, payload=not missing(request, PAYLOAD))),
        "led": runtime.store.overview(1).leader is not None,
    }
    return TemplateResponse(request, "admin/django_celery_replay/replay.html", context)


def _ordered(
    request: HttpRequest, wanted: Mapping[str, Any], options: Options, items: Sequence[Item]
) -> tuple[Order, Sequence[Item]]:
    accepts = bool(wanted.get("unknown"))
    order = Order(
        actor=actor(request),
        reason=wanted["reason"],
        rate=wanted.get("rate"),
        options=evolve(options, include_unknown=accepts),
    )
    return order, accept_unknown(items) if accepts else items


def _looked_at(frozen: Frozen, options: Options, known: Collection[str]) -> tuple[Runtime, list[Item]]:
    letters = [letter for letter in frozen.read() if letter.submission not in known]
    runtime = runtime_that_knows({letter.operation for letter in letters})
    items = preview(runtime, letters, options)
    return runtime, [_as_frozen(item, frozen) for item in items]


def _as_frozen(item: Item, frozen: Frozen) -> Item:
    """Leave out what changed since it was chosen; what it is now may already say so better."""
    same = frozen.letters[token(item.letter.submission)] == item.letter.revision
    if same or item.hindrance not in (None, Hindrance.EFFECT_UNKNOWN):
        return item
    return evolve(item, hindrance=Hindrance.CHANGED, said="it changed since you looked at it; look again")


def _send(
    model_admin: Any,
    request: HttpRequest,
    frozen: Frozen,
    runtime: Runtime,
    items: Sequence[Item],
    order: Order,
    most: int | None,
) -> HttpResponse:
    if len(frozen) == 1:
        return _one(model_admin, request, frozen, next(send(runtime, items, order, frozen.operation_id)))
    beyond = [] if most is None else [item for item in items if item.ready][most:]
    later = {item.letter.submission for item in beyond}
    now = [item for item in items if item.letter.submission not in later]
    results, trouble = in_time(send(runtime, now, order, frozen.operation_id))
    whole = len(results) == len(now)
    runtime.store.write_down(_left_out(results, beyond if whole else [], order, frozen.operation_id))
    if whole:
        return HttpResponseRedirect(model_admin.url("operation", frozen.operation_id))
    messages.warning(request, early(len(results), len(now), trouble))
    return look(model_admin, request, frozen, only=True)


def _one(model_admin: Any, request: HttpRequest, frozen: Frozen, sent: Sent) -> HttpResponse:
    if sent.ok:
        messages.success(request, f"It is being replayed, as task {sent.task_id}.")
    else:
        messages.error(request, capfirst(told(sent.said)))
    (key,) = frozen.letters
    return HttpResponseRedirect(model_admin.url("change", key))


def _left_out(
    results: Sequence[Sent], beyond: Sequence[Item], order: Order, operation_id: str
) -> list[tuple[str, Decision]]:
    wanted = Decision(verb=Verb.REPLAYED, actor=order.actor, operation_id=operation_id)
    refused = [(sent.item, sent.said) for sent in results if not sent.ok]
    refused += [(item, "it was not among those of the trial") for item in beyond]
    return [(item.letter.submission, leaving_out(wanted, why, hindrance=item.hindrance)) for item, why in refused]
