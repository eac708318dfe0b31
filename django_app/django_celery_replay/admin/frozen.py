"""Sets of dead letters as they were when somebody chose them: what comes later, or changes, is not in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.core import signing
from django.core.exceptions import BadRequest
from django.db.models import QuerySet

from celery_replay.clock import Micros, new_id, wall
from celery_replay.records import Letter

from ..models import DeadLetter
from ..tables import LETTERS
from .display import moment
from .reading import AT_ONCE, stored

BOUND = 1_000
"""How many letters one command is about, at most."""
_SALT = "django_celery_replay.frozen"


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """Letters that were chosen. Signed, so that a form can carry it."""

    operation_id: str
    """Of the command that they are chosen for: sent twice, it is still one."""
    at: Micros
    letters: dict[str, int]
    """The revision of each, by its key as it is stored."""
    more: bool = False
    """Were there more of them than one command takes?"""

    def __len__(self) -> int:
        return len(self.letters)

    @property
    def told(self) -> str:
        """Say how many they are."""
        return "1 dead letter" if len(self) == 1 else f"{len(self):,} dead letters"

    @property
    def chosen_at(self) -> object:
        """Say when they were chosen."""
        return moment(self.at)

    def sign(self) -> str:
        """Return it as text that nobody can change."""
        parts = [self.operation_id, self.at, self.more, list(self.letters.items())]
        return signing.dumps(parts, salt=_SALT, compress=True)

    def read(self) -> Iterator[Letter]:
        """Read the letters as they are now, in their order; those that are gone are missing."""
        keys = list(self.letters)
        for some in (keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE)):
            found = {row.pk: row for row in stored(DeadLetter).filter(pk__in=some)}
            yield from (LETTERS.record_of(found[key]) for key in some if key in found)


def freeze(letters: Iterable[tuple[str, int]]) -> Frozen:
    """Choose letters: keys as they are stored, with their revisions."""
    chosen = list(letters)
    return Frozen(operation_id=new_id(), at=wall(), letters=dict(chosen[:BOUND]), more=len(chosen) > BOUND)


def freeze_rows(rows: QuerySet[DeadLetter]) -> Frozen:
    """Choose the first of these rows, as many as one command takes."""
    return freeze(rows.values_list("pk", "revision")[: BOUND + 1])


def revision_in(text: str, key: str) -> int:
    """Return the revision of the one letter that was signed.

    Raises:
        BadRequest: nobody signed that here, or it is about another letter.
    """
    letters = thaw(text).letters
    if letters.keys() != {key}:
        raise BadRequest("This form is about another letter.")
    return letters[key]


def thaw(text: str) -> Frozen:
    """Return what was signed.

    Raises:
        BadRequest: nobody signed that here.
    """
    try:
        operation_id, at, more, letters = signing.loads(text, salt=_SALT)
    except signing.BadSignature as error:
        raise BadRequest("This page's choice of letters is damaged; go back to the list and choose again.") from error
    return Frozen(operation_id=operation_id, at=at, more=more, letters=dict(letters))
