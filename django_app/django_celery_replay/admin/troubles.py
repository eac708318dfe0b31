"""What a visitor is told where the store can't be read, or refuses: a sentence, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from celery_replay.exceptions import ReplayError
from celery_replay.logs import logger_of
from celery_replay.redaction import redact_text

from .display import shown

logger = logger_of(__name__)

View = Callable[..., HttpResponse]


def said(error: Exception) -> str:
    """Return an error's message for a reader."""
    return shown(redact_text(error.message if isinstance(error, ReplayError) else str(error)), 1_000)


def with_troubles_told(view: View) -> View:
    """Answer with a page that says what is wrong, where a view's store fails.

    The view's first argument is the model's admin.
    """

    @wraps(view)
    def watched(model_admin: Any, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            response = view(model_admin, request, *args, **kwargs)
            # Now, since what is looked up while a page is drawn can fail as well.
            return response.render() if isinstance(response, TemplateResponse) else response
        except (ReplayError, Error) as error:
            logger.warning("replay.admin_failed", exc_info=True)
            return _page(model_admin, request, error)

    return watched


def _page(model_admin: Any, request: HttpRequest, error: Exception) -> HttpResponse:
    context = {
        **model_admin.context(request, "This can't be done now"),
        "problem": said(error),
        "is_read": request.method in ("GET", "HEAD"),
    }
    response = TemplateResponse(request, "admin/django_celery_replay/problem.html", context, status=503)
    return response.render()
