"""What a task reads with requests, kept with its trace: mount the adapter on your session."""

from __future__ import annotations

from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers

from .http_answers import SAFE, Data, answered, body_of, data_of


class ReplayAdapter(HTTPAdapter):
    """Makes each GET, HEAD and OPTIONS of a task's body a recorded step; a dry run gets the recorded answer.

    Other methods go through as they are: they are effects, and belong into steps of your own. Outside of a task
    nothing changes. Bodies are read at once, also with `stream=True`.

        session = requests.Session()
        session.mount("https://", ReplayAdapter())
    """

    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        """Send it, or answer it by the record."""
        method, url = (request.method or "GET").upper(), request.url or ""
        if method not in SAFE:
            return super().send(request, *args, **kwargs)
        came: list[Response] = []

        def ask() -> Data:
            response = super(ReplayAdapter, self).send(request, *args, **kwargs)
            came.append(response)
            headers = response.headers.items()
            return data_of(response.status_code, headers, response.content, reason=response.reason, url=response.url)

        data = answered(method, url, ask)
        return came[0] if came else _made(data, request)


def _made(data: Data, request: PreparedRequest) -> Response:
    response = Response()
    response.status_code = int(data["status"])
    response.headers = CaseInsensitiveDict(data["headers"])
    response.reason, response.url = data["reason"], data["url"]
    response.request = request
    response._content = body_of(data)
    response.encoding = get_encoding_from_headers(response.headers)
    return response
