"""Dry runs and forks: asked for here, done by a worker, and looked at as often as somebody wants."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from celery_replay.clock import SECOND, wall
from celery_replay.config import Settings
from celery_replay.dry_run.orders import PATIENCE_S, Changes, Order, give
from celery_replay.dry_run.variation import DEPTH, Cache, Variation, VariationUnfit
from celery_replay.dry_run.verdicts import sentence
from celery_replay.exceptions import TrialNotSent
from celery_replay.records import HistoryEntry, Letter
from celery_replay.replay.operations import Member, members
from celery_replay.runtime import Runtime
from celery_replay.snapshots.capture import BEFORE
from celery_replay.states import Verb

from ..conf import runtime
from ..models import DeadLetter
from ..text import token
from .display import badge, column, moment, shown, told
from .editing import CHANGED, PayloadForm, begun_form
from .frozen import Frozen, freeze, revision_in, thaw
from .histories import details_of
from .operations import entries_of, id_in
from .outcomes import ends_of, outcome, verdict
from .permissions import DRY_RUN, PAYLOAD, actor, missing
from .reading import history, many
from .tasks import runtime_that_knows
from .troubles import said

_UNHEARD_US = 15 * SECOND
"""After how long a page says that perhaps no worker listens."""
_SILENT_US = 2 * PATIENCE_S * SECOND
"""After how long without news a page says that perhaps the worker is dead."""
_REFRESHED_US = 600 * SECOND
"""How long a page looks again by itself."""
_AGAIN_S = 3


class ReasonForm(forms.Form):
    """Asks why, for those who read the history."""

    text = forms.CharField(
        label="Reason", required=False, max_length=1_000, widget=forms.Textarea(attrs={"rows": 2, "cols": 60})
    )


class ForkForm(PayloadForm):
    """Asks what is to be otherwise."""

    stubs = forms.CharField(
        label="Outputs of steps",
        initial="{}",
        widget=forms.Textarea(attrs={"rows": 4, "cols": 80, "spellcheck": "false"}),
        help_text='A JSON object: what steps give, by their names, whatever is recorded, such as {"buy_label": "L-1"}.',
    )
    at = forms.CharField(
        label="Live from",
        required=False,
        max_length=200,
        help_text="A step, or a snapshot of the job: from there on steps run their own code, in the sandbox.",
    )
    begin_with = forms.CharField(
        label="Begin with",
        required=False,
        max_length=200,
        help_text="A snapshot of the job whose rows it begins with, such as “after”; “before” where this is empty.",
    )
    cache = forms.ChoiceField(label="Caches", choices=[(str(word), str(word)) for word in Cache], required=False)
    options = forms.CharField(
        label="Options of the task",
        initial="{}",
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "cols": 80, "spellcheck": "false"}),
        help_text='A JSON object, such as {"resources": ["order:{order_id}"]}.',
    )
    follow = forms.BooleanField(
        label="Follow", required=False, help_text="Run what it publishes, too, in the same sandbox."
    )
    field_order = ("args", "kwargs", "stubs", "at", "begin_with", "cache", "options", "follow", "text")

    def __init__(self, letter: Letter, data: Any = None, initial: Any = None) -> None:
        super().__init__(letter, data, initial)
        self.fields["text"].required = False

    def clean_stubs(self) -> dict[str, Any]:
        """Read them."""
        return _object(self.cleaned_data["stubs"])

    def clean_options(self) -> dict[str, Any]:
        """Read them."""
        return _object(self.cleaned_data["options"] or "{}")

    def clean(self) -> None:
        """Make one description of all that is otherwise, beside the arguments."""
        super().clean()
        given = self.cleaned_data
        if not self.errors:
            try:
                given["variation"] = Variation(
                    stubs=given["stubs"],
                    at=given["at"] or None,
                    begin_with=given["begin_with"] or BEFORE,
                    cache=Cache(given["cache"] or Cache.RECORDED),
                    options=given["options"],
                    follow=DEPTH if given["follow"] else 0,
                )
            except VariationUnfit as error:
                self.add_error(None, said(error))


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise forms.ValidationError("This is no JSON.") from error
    if not isinstance(found, dict):
        raise forms.ValidationError("This must be a JSON object.")
    return found


def trial(model_admin: Any, request: HttpRequest) -> HttpResponse:
    """Let a worker dry-run letters: one at once, many after they were looked at."""
    model_admin.require(request, DRY_RUN)
    frozen = thaw(request.POST.get("letters", ""))
    form = ReasonForm(request.POST)
    if len(frozen) > 1 and ("confirmed" not in request.POST or not form.is_valid()):
        return ask_for_trial(model_admin, request, frozen, form if "confirmed" in request.POST else None)
    if not form.is_valid():
        raise BadRequest("The reason is too long.")
    return _give(model_admin, request, frozen, runtime_that_knows(()), Changes(), form.cleaned_data["text"], {})


def ask_for_trial(
    model_admin: Any, request: HttpRequest, frozen: Frozen, form: ReasonForm | None = None
) -> HttpResponse:
    """Show of which letters a dry run is asked for."""
    context = {
        **model_admin.context(request, f"Dry-run: {frozen.told}"),
        "form": form or ReasonForm(),
        "frozen": frozen,
    }
    return TemplateResponse(request, "admin/django_celery_replay/trial.html", context)


def fork(model_admin: Any, request: HttpRequest, object_id: str) -> HttpResponse:
    """Ask what is to be otherwise, and let a worker run it so."""
    model_admin.require(request, DRY_RUN, PAYLOAD)
    letter: Letter = model_admin.record(request, object_id)
    key = model_admin.key(letter)
    context = model_admin.context(request, "Fork", letter)
    if request.method != "POST":
        context |= {"letters": freeze([(key, letter.revision)]).sign(), **begun_form(letter, ForkForm)}
        return TemplateResponse(request, "admin/django_celery_replay/fork.html", context)
    signed = request.POST.get("letters", "")
    form = ForkForm(letter, request.POST)
    if revision_in(signed, key) != letter.revision:
        form.is_valid()
        form.add_error(None, CHANGED)
    elif form.is_valid() and form.mended is not None:
        given = form.cleaned_data
        varied = given["variation"].as_data()
        changes = Changes(args=given["args"], kwargs=given["kwargs"], variation=varied)
        names = {"changed": form.mended.changed, "varied": [*_names(varied)]}
        return _give(
            model_admin, request, thaw(signed), runtime_that_knows([letter.operation]), changes, given["text"], names
        )
    context |= {"letters": signed, "form": form}
    return TemplateResponse(request, "admin/django_celery_replay/fork.html", context)


def _give(
    model_admin: Any,
    request: HttpRequest,
    frozen: Frozen,
    known: Runtime,
    changes: Changes,
    text: str,
    names: dict[str, list[str]],
) -> HttpResponse:
    if not history(1, operation_id=frozen.operation_id):
        letters = {letter.submission: frozen.letters[token(letter.submission)] for letter in frozen.read()}
        if not letters:
            raise Http404("These letters are not there any more. Records go when their time is over.")
        order = Order(operation_id=frozen.operation_id, actor=actor(request), letters=letters, changes=changes)
        try:
            give(known, order, text=text, changed=names)
        except TrialNotSent as error:
            messages.error(request, capfirst(said(error)))
    return HttpResponseRedirect(model_admin.url("trials", token(frozen.operation_id)))


def trials(model_admin: Any, request: HttpRequest, operation_id: str) -> HttpResponse:
    """Show what came out of the dry runs of a command."""
    model_admin.require(request)
    entries = entries_of(operation_id)
    items = members(entries)
    wanted = _wanted(entries)
    if len(items) == 1:
        return HttpResponseRedirect(model_admin.url("tried", *map(token, (items[0].submission, wanted.operation_id))))
    done = [item for item in items if item.latest.verb is Verb.TRIED]
    ends = Counter(ends_of(item.latest) for item in done)
    sums = Counter(str(details_of(item.latest).get("summed", "")) for item in done)
    begun = next((entry for entry in entries if entry.verb is Verb.TRIAL_BEGUN), None)
    over = all(item.latest.verb in (Verb.TRIED, Verb.LEFT_OUT) for item in items)
    context = {
        **model_admin.context(request, f"Dry run: {len(items):,} dead letters"),
        **_standing(wanted, begun, entries[-1], over=over),
        "sentence": told(sentence(sums)),
        "progress": "" if over else f"{len(done):,} of {len(items):,} are done.",
        "refreshing": not over,
        "counts": [(verdict(what), count) for what, count in ends.most_common()],
        "lines": list(_lines(model_admin, items)),
    }
    return TemplateResponse(request, "admin/django_celery_replay/trials.html", context)


def tried(model_admin: Any, request: HttpRequest, object_id: str, operation_id: str) -> HttpResponse:
    """Show what came out of the dry run of one letter."""
    letter: Letter = model_admin.record(request, object_id)
    name = id_in(operation_id)
    entries = history(submission=letter.submission, operation_id=name)
    wanted = _wanted(entries)
    found = next((entry for entry in reversed(entries) if entry.verb is Verb.TRIED), None)
    begun = next(iter(history(1, operation_id=name, verb=str(Verb.TRIAL_BEGUN))), None)
    fork = details_of(wanted).get("mode") == "fork"
    over = found is not None or entries[-1].verb is Verb.LEFT_OUT
    context = {
        **model_admin.context(request, "Fork" if fork else "Dry run", letter),
        **_standing(wanted, begun, entries[-1], over=over),
        "told_at": moment(found.at) if found else "",
        "outcome": outcome(found, payload=not missing(request, PAYLOAD)) if found else None,
    }
    return TemplateResponse(request, "admin/django_celery_replay/tried.html", context)


def _names(varied: Mapping[str, Any]) -> Iterator[str]:
    """Name what is otherwise; of outputs and options which ones, and no values."""
    for name, value in varied.items():
        yield from value if isinstance(value, Mapping) else [_SHOWN.get(name, name)]


_SHOWN = {"at": "live from", "begin_with": "begin with", "cache": "caches", "follow": "follow"}


def _wanted(entries: Sequence[HistoryEntry]) -> HistoryEntry:
    found = next((entry for entry in entries if entry.verb is Verb.TRIAL_WANTED), None)
    if found is None:
        raise Http404("No dry run has this id. Records go when their time is over.")
    return found


def _standing(
    wanted: HistoryEntry, begun: HistoryEntry | None, latest: HistoryEntry, *, over: bool
) -> dict[str, object]:
    """Say who asked for it, whether it is being done, and whether perhaps nobody does it."""
    # To look at it no Celery app is needed.
    known = runtime()
    now, queue = wall(), (known.settings if known else Settings()).trial_queue
    details = details_of(wanted)
    changed = [shown(name, 80) for part in ("changed", "varied") for name in details.get(part) or ()]
    standing = told(latest.text) if over else f"It runs {told(begun.text)}" if begun else "It waits for a worker"
    return {
        "standing": standing,
        "wanted_at": moment(wanted.at),
        "actor": shown(wanted.actor, 150),
        "reason": told(wanted.text),
        "changed": ", ".join(changed),
        "queue": shown(queue, 100),
        "command": f"celery -A {shown((known and known.app.main) or 'proj', 60)} worker -Q {shown(queue, 100)}",
        "unheard": not over and begun is None and now - wanted.at > _UNHEARD_US,
        "silent": not over and begun is not None and now - max(begun.at, latest.at) > _SILENT_US,
        "refresh": _AGAIN_S if not over and now - wanted.at < _REFRESHED_US else 0,
    }


def _lines(model_admin: Any, items: Sequence[Member]) -> Iterator[dict[str, object]]:
    letters = many(DeadLetter, [token(item.submission) for item in items], "operation", "key")
    for item in sorted(items, key=lambda item: (item.latest.verb is not Verb.TRIED, ends_of(item.latest))):
        letter, done = letters.get(token(item.submission)), item.latest.verb is Verb.TRIED
        name = f"{column(letter.operation)} {column(letter.key or letter.pk, 60)}" if letter else ""
        url = model_admin.url("tried", token(item.submission), token(item.latest.operation_id))
        yield {
            "verdict": verdict(ends_of(item.latest)) if done else badge(item.standing),
            "letter": model_admin.link(DeadLetter, letter.pk, name) if letter else shown(item.submission, 100),
            "said": told(item.latest.text, 500) if done or item.latest.verb is Verb.LEFT_OUT else "",
            "url": url if letter and done else "",
        }
