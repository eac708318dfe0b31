"""Who looks at the pages. Users need a database, and the one that is looked at here has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib.auth.models import AnonymousUser, User

APP = "django_celery_replay"
KINDS = ("processedjob", "deadletter", "lettergroup", "parkedjob", "resourcelease")
READS = tuple(f"{APP}.view_{kind}" for kind in (*KINDS, "replayoperation"))
PAYLOAD = f"{APP}.view_payload"
TRIAGE = f"{APP}.triage_deadletter"
REPLAY = f"{APP}.replay_deadletter"
DRY_RUN = f"{APP}.dry_run_deadletter"
ALL = (*READS, PAYLOAD, TRIAGE, DRY_RUN, REPLAY)
_current: list[Any] = []


class Visitor(User):
    """Somebody of the staff with a few permissions."""

    class Meta:
        proxy = True
        app_label = "auth"

    granted: frozenset[str] = frozenset()

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        return perm in self.granted

    def has_module_perms(self, app_label: str) -> bool:
        return any(perm.startswith(f"{app_label}.") for perm in self.granted)


def welcome(permissions: Iterable[str] | None) -> None:
    """Say who sends the requests that follow; None for somebody unknown."""
    visitor: Any = AnonymousUser()
    if permissions is not None:
        visitor = Visitor(pk=1, username="ann", is_staff=True)
        visitor.granted = frozenset(permissions)
    _current[:] = [visitor]


def middleware(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def respond(request: Any) -> Any:
        request.user = _current[0]
        return get_response(request)

    return respond
