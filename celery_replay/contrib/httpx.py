"""What a task reads with httpx, kept with its trace: give your client the transport."""

from __future__ import annotations

import httpx

from .http_answers import SAFE, Data, answered, answered_later, body_of, data_of


class ReplayTransport(httpx.BaseTransport):
    """Makes each GET, HEAD and OPTIONS of a task's body a recorded step; a dry run gets the recorded answer.

    Other methods go through as they are: they are effects, and belong into steps of your own. Outside of a task
    nothing changes. Bodies are read at once, also of streams.

        client = httpx.Client(transport=ReplayTransport())

    Args:
        inner: what sends the requests; by default httpx's own, with its defaults.
    """

    def __init__(self, inner: httpx.BaseTransport | None = None) -> None:
        self._inner = inner or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send it, or answer it by the record."""
        method, url = request.method.upper(), str(request.url)
        if method not in SAFE:
            return self._inner.handle_request(request)

        def ask() -> Data:
            response = self._inner.handle_request(request)
            try:
                body = response.read()
            finally:
                response.close()
            return data_of(response.status_code, response.headers.multi_items(), body)

        return _made(answered(method, url, ask), request)

    def close(self) -> None:
        """Close what sends the requests."""
        self._inner.close()


class AsyncReplayTransport(httpx.AsyncBaseTransport):
    """The same for clients that are asked in coroutines, in a body that runs them by `asyncio.run()` or the like.

        client = httpx.AsyncClient(transport=AsyncReplayTransport())

    Requests that are under way at the same time are told apart by the order in which they were begun.

    Args:
        inner: what sends the requests; by default httpx's own, with its defaults.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport | None = None) -> None:
        self._inner = inner or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it, or answer it by the record."""
        method, url = request.method.upper(), str(request.url)
        if method not in SAFE:
            return await self._inner.handle_async_request(request)

        async def ask() -> Data:
            response = await self._inner.handle_async_request(request)
            try:
                body = await response.aread()
            finally:
                await response.aclose()
            return data_of(response.status_code, response.headers.multi_items(), body)

        return _made(await answered_later(method, url, ask), request)

    async def aclose(self) -> None:
        """Close what sends the requests."""
        await self._inner.aclose()


def _made(data: Data, request: httpx.Request) -> httpx.Response:
    headers = [(str(name), str(value)) for name, value in data["headers"]]
    return httpx.Response(int(data["status"]), headers=headers, content=body_of(data), request=request)
