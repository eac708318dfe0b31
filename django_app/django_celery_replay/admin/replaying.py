"""A real replay: looked at first, then sent: one letter by the core at once, many as an operation by stewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from celery_replay.exceptions import TriageRefused
from celery_replay.operations import AT_ONCE, OF_LAST, SHARE, Conditions
from celery_replay.records import evolve
from celery_replay.replay import driving
from celery_replay.replay.message import PayloadUnreadable
from celery_replay.replay.plan import ALL, Hindrance, Item, Options, accept_unknown, preview
from celery_replay.replay.sending import Order, choose, send
from celery_replay.runtime import Runtime
from celery_replay.states import Replays

from ..text import token
from .display import told
from .frozen import Frozen, thaw
from .permissions import PAYLOAD, REPLAY, actor, missing
from .previews import effects, lines, totals
from .tasks import runtime_that_knows

RATE = 10
"""Replays per second that are proposed for many: what failed together may fail together again."""
CANARY = 5
"""So many are proposed to go first, where there are some more of them."""
_OF_MANY = ("canary", "rate", "stop_after", "stop_above")


class ReplayForm(forms.Form):
    """Asks why, how fast, what stops it, and what is accepted."""

    reason = forms.CharField(label="Reason", max_length=1_000, widget=forms.Textarea(attrs={"rows": 2, "cols": 60}))
    unknown = forms.CharField(label="Accept unknown effects", required=False, max_length=10)
    allow = forms.CharField(
        label="Only these side effects",
        required=False,
        max_length=2_000,
        help_text="Names of steps, with commas; “body” for what a body does outside of steps. They may be done, also "
        "where they may happen twice; every other one is refused. Empty: all that did not begin yet.",
    )
    canary = forms.IntegerField(
        label="Canary",
        required=False,
        min_value=1,
        help_text="So many go first, the rest only if all of these end well.",
    )
    rate = forms.FloatField(
        label="At most per second",
        required=False,
        min_value=0.01,
        max_value=100,
        help_text=f"Empty: as fast as they end; never more than {AT_ONCE} are under way.",
    )
    stop_after = forms.IntegerField(
        label="Stop after", required=False, min_value=1, help_text="Once so many have failed again."
    )
    stop_above = forms.IntegerField(
        label="Stop above",
        required=False,
        min_value=0,
        max_value=100,
        help_text=f"Once more than this many percent of the last {OF_LAST} have failed again. Empty: never.",
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
        proposed = {"rate": RATE, "stop_above": round(SHARE * 100), "canary": CANARY if count > 4 * CANARY else None}
        super().__init__(data, initial=proposed)
        self._unknown = unknown
        self._count = count
        self.fields["unknown"].help_text = (
            f"Of {unknown:,} of these nobody knows whether their side effects happened: a replay may repeat them. "
            f"Type {unknown} to send them as well; empty, they are left out."
        )
        if not unknown:
            del self.fields["unknown"]
        for name in _OF_MANY if count == 1 else ():
            del self.fields[name]
        if not never:
            del self.fields["override_never"]

    def clean_unknown(self) -> bool:
        """Tell whether the number was typed."""
        typed: str = self.cleaned_data["unknown"].strip()
        if typed and typed != str(self._unknown):
            raise forms.ValidationError(f"Type {self._unknown}, or nothing.")
        return bool(typed)

    def clean_allow(self) -> tuple[str, ...] | None:
        """Refuse to allow anything of many: that is accepted by their number."""
        names = allowed(self.cleaned_data["allow"])
        if names and ALL in names and self._count > 1:
            raise forms.ValidationError(f"Of many, “{ALL}” is accepted by their number alone.")
        return names


def allowed(text: str) -> tuple[str, ...] | None:
    """Read a list of side effects; None where nothing is written."""
    return tuple(filter(None, (name.strip() for name in text.split(",")))) or None


def replay(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Show what would be sent; send it once that was seen, and the form is complete."""
    model_admin.require(request, REPLAY)
    return look(model_admin, request, thaw(request.POST.get("letters", "")))


def look(model_admin: Any, request: HttpRequest, frozen: Frozen) -> HttpResponse:
    """Show what would be sent of these letters, and what would not; or send it."""
    options = Options(
        with_canvas="with_canvas" in request.POST,
        override_never="override_never" in request.POST,
        allow=allowed(request.POST.get("allow", "")),
    )
    runtime, items = _looked_at(frozen, options)
    if "confirmed" in request.POST and len(frozen) > 1 and runtime.store.operation(frozen.operation_id):
        return _begun_before(model_admin, request, frozen)
    unknown = sum(item.hindrance is Hindrance.EFFECT_UNKNOWN for item in items)
    never = len(items) == 1 and items[0].rule is Replays.NEVER
    form = ReplayForm(unknown, len(frozen), request.POST if "looked" in request.POST else None, never=never)
    if "confirmed" in request.POST and form.is_valid():
        chosen = accept_unknown(items) if form.cleaned_data.get("unknown") else items
        if any(item.ready for item in chosen):
            order = Order(
                actor=actor(request),
                reason=form.cleaned_data["reason"],
                with_canvas=options.with_canvas,
                operation_id=frozen.operation_id,
            )
            if len(frozen) == 1:
                return _send(model_admin, request, runtime, chosen[0], order, options)
            return _begin(model_admin, request, runtime, chosen, order, options, form.cleaned_data)
        form.add_error(None, "Nothing would be sent; the reason stands beside each.")
    context = {
        **model_admin.context(request, f"Replay: {frozen.told}"),
        "form": form,
        "frozen": frozen,
        "gone": len(frozen) - len(items),
        "totals": totals(items),
        "effects": list(effects(items)),
        "lines": list(lines(model_admin, items, payload=not missing(request, PAYLOAD))),
        "led": runtime.store.overview(1).leader is not None,
    }
    return TemplateResponse(request, "admin/django_celery_replay/replay.html", context)


def _looked_at(frozen: Frozen, options: Options) -> tuple[Runtime, list[Item]]:
    letters = list(frozen.read())
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
    model_admin: Any, request: HttpRequest, runtime: Runtime, item: Item, order: Order, options: Options
) -> HttpResponse:
    try:
        begun = send(runtime, choose(runtime, item, options), order)
    except (TriageRefused, PayloadUnreadable) as refusal:
        messages.error(request, capfirst(told(refusal.message)))
    else:
        messages.success(request, f"It is being replayed, as task {begun.task_id}.")
    return HttpResponseRedirect(model_admin.url("change", token(item.letter.submission)))


def _begin(
    model_admin: Any,
    request: HttpRequest,
    runtime: Runtime,
    items: Sequence[Item],
    order: Order,
    options: Options,
    wanted: Mapping[str, Any],
) -> HttpResponse:
    share = wanted["stop_above"]
    conditions = Conditions(
        rate=wanted["rate"],
        canary=wanted["canary"] or 0,
        stop_after=wanted["stop_after"],
        stop_above=1 if share is None else share / 100,
        with_canvas=order.with_canvas,
        allow=options.allow,
    )
    try:
        driving.start(
            runtime,
            items,
            actor=order.actor,
            reason=order.reason,
            conditions=conditions,
            options=options,
            operation_id=order.operation_id,
        )
    except TriageRefused as refusal:
        messages.error(request, capfirst(told(refusal.message)))
    return HttpResponseRedirect(model_admin.url("operation", order.operation_id))


def _begun_before(model_admin: Any, request: HttpRequest, frozen: Frozen) -> HttpResponse:
    messages.warning(request, "This operation was begun before: here is what became of it.")
    return HttpResponseRedirect(model_admin.url("operation", frozen.operation_id))
