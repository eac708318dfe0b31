"""What people can decide about a dead letter without sending it: the words, the permissions, what is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from django import forms
from django.contrib.auth import get_user_model

from celery_replay.states import Verb

from .permissions import TRIAGE


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of the decisions."""

    name: str
    verb: Verb
    label: str
    sentence: str
    """What is about to happen to each letter."""
    reason_required: bool = False
    pinned: bool = True
    """Refused where the letter changed since the decider looked at it."""
    permission: str = TRIAGE
    asks_whom: bool = False
    for_many: bool = True


_CHOICES = (
    Choice(name="note", verb=Verb.NOTED, label="Note", sentence="gets a note", reason_required=True, pinned=False),
    Choice(
        name="investigate",
        verb=Verb.INVESTIGATED,
        label="Investigate",
        sentence="is marked as being looked into",
    ),
    Choice(
        name="quarantine",
        verb=Verb.QUARANTINED,
        label="Quarantine",
        sentence="is not replayed until somebody opens it again",
    ),
    Choice(name="reopen", verb=Verb.REOPENED, label="Open again", sentence="waits for a decision again"),
    Choice(name="take", verb=Verb.ASSIGNED, label="Assign to me", sentence="is assigned to you"),
    Choice(
        name="assign",
        verb=Verb.ASSIGNED,
        label="Assign to…",
        sentence="is assigned to somebody, or to nobody",
        asks_whom=True,
    ),
    Choice(
        name="discard",
        verb=Verb.DISCARDED,
        label="Discard",
        sentence="is closed: nothing is to be done about it",
        reason_required=True,
    ),
)
CHOICES = {choice.name: choice for choice in _CHOICES}
"""By the names that forms send."""


class DecisionForm(forms.Form):
    """Asks for what a decision needs."""

    text = forms.CharField(
        label="Reason", required=False, max_length=1_000, widget=forms.Textarea(attrs={"rows": 2, "cols": 60})
    )
    assignee = forms.CharField(
        label="Username",
        required=False,
        max_length=150,
        help_text="Empty: nobody.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none"}),
    )

    def __init__(self, choice: Choice, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.fields["text"].required = choice.reason_required
        if choice.verb is Verb.NOTED:
            self.fields["text"].label = "Note"
        if not choice.asks_whom:
            del self.fields["assignee"]

    def clean_assignee(self) -> str:
        """Refuse whom nobody knows: the letter would wait for somebody who never looks."""
        name: str = self.cleaned_data["assignee"].strip()
        users = get_user_model()
        if name and not users._default_manager.filter(**{users.USERNAME_FIELD: name}).exists():
            raise forms.ValidationError("No user has this name.")
        return name
