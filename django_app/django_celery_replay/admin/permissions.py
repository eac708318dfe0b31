"""Who may do what. Each page's own *view* permission comes first."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

_APP = "django_celery_replay"
PAYLOAD = f"{_APP}.view_payload"
TRIAGE = f"{_APP}.triage_deadletter"
DRY_RUN = f"{_APP}.dry_run_deadletter"
REPLAY = f"{_APP}.replay_deadletter"


def missing(request: HttpRequest, *permissions: str) -> str:
    """Return the first of these permissions that the visitor has not got, or ""."""
    return next((name for name in permissions if not request.user.has_perm(name)), "")


def require(request: HttpRequest, *permissions: str) -> None:
    """Refuse whoever has not got all of them.

    Raises:
        PermissionDenied: it names what is missing.
    """
    lacking = missing(request, *permissions)
    if lacking:
        raise PermissionDenied(f"This needs the permission {lacking}.")


def actor(request: HttpRequest) -> str:
    """Return the visitor's name, as the history keeps it: it outlives the user."""
    return str(request.user.get_username())
