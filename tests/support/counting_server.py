"""A real HTTP server that counts what reached it, to judge side effects from outside.

`POST /charges?reference=order:1` has an effect; `GET /charges?reference=order:1` asks whether it exists.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.support.net import LOCALHOST

EFFECTFUL = ("POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Refusal:
    """An answer given in place of an effect."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    after_effect: bool = False
    """The effect happens all the same: the client can't know."""


class CountingServer:
    """Counts requests per method, path and reference; start it as a context manager."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        """Waited after the effect and before the answer, so that a client can die in between."""
        self.delay_before_s = 0.0
        """Waited before the effect."""
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._effects: Counter[tuple[str, str]] = Counter()
        self._inside: Counter[tuple[str, str]] = Counter()
        self._most: Counter[tuple[str, str]] = Counter()
        self._refusals: deque[Refusal] = deque()
        self._http = _Server((LOCALHOST, 0), _Handler)
        self._http.counting = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The address of the server, without a slash at the end."""
        return f"http://{LOCALHOST}:{self._http.server_port}"

    def __enter__(self) -> CountingServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def requests(self, method: str | None = None, path: str | None = None, reference: str | None = None) -> int:
        """Count the requests that match, whatever came of them."""
        wanted = (method, path, reference)
        with self._lock:
            return sum(
                count
                for key, count in self._requests.items()
                if all(want in (None, have) for want, have in zip(wanted, key, strict=True))
            )

    def effects(self, path: str, reference: str) -> int:
        """Count how often the effect really happened; more than once is what must not be."""
        with self._lock:
            return self._effects[path, reference]

    def most_at_once(self, path: str, reference: str) -> int:
        """Count the requests for an effect that were here at the same time, at the worst moment."""
        with self._lock:
            return self._most[path, reference]

    @contextmanager
    def inside(self, path: str, reference: str) -> Iterator[None]:
        """Be here for as long as a request takes."""
        place = (path, reference)
        with self._lock:
            self._inside[place] += 1
            self._most[place] = max(self._most[place], self._inside[place])
        yield
        with self._lock:
            self._inside[place] -= 1

    def all_effects(self) -> dict[tuple[str, str], int]:
        """Return the count of each effect by path and reference."""
        with self._lock:
            return dict(self._effects)

    def refuse(
        self,
        status: int,
        *,
        times: int = 1,
        after_effect: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Answer the next requests that would have an effect with this status."""
        with self._lock:
            self._refusals.extend([Refusal(status, dict(headers or {}), after_effect)] * times)

    def reset(self) -> None:
        """Forget all counts and refusals."""
        with self._lock:
            self._requests.clear()
            self._effects.clear()
            self._most.clear()
            self._refusals.clear()

    def seen(self, method: str, path: str, reference: str) -> Refusal | None:
        """Count a request and return how to refuse it, if at all."""
        with self._lock:
            self._requests[method, path, reference] += 1
            return self._refusals.popleft() if method in EFFECTFUL and self._refusals else None

    def take_effect(self, path: str, reference: str) -> int:
        """Have the effect and return how often it happened until now."""
        with self._lock:
            self._effects[path, reference] += 1
            return self._effects[path, reference]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    counting: CountingServer

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that were killed in the middle."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        counting, path, reference = self._request()
        counting.seen("GET", path, reference)
        count = counting.effects(path, reference)
        self._answer(200 if count else 404, {"reference": reference, "count": count})

    def do_POST(self) -> None:
        counting, path, reference = self._request()
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with counting.inside(path, reference):
            refusal = counting.seen(self.command, path, reference)
            time.sleep(counting.delay_before_s)
            count = counting.effects(path, reference)
            if refusal is None or refusal.after_effect:
                count = counting.take_effect(path, reference)
            time.sleep(counting.delay_s)
        status, headers = (refusal.status, refusal.headers) if refusal else (201, {})
        self._answer(status, {"reference": reference, "count": count}, headers)

    do_PUT = do_PATCH = do_DELETE = do_POST

    def log_message(self, *_: object) -> None:
        """Keep stderr for the tests."""

    def _request(self) -> tuple[CountingServer, str, str]:
        parts = urlsplit(self.path)
        return self.server.counting, parts.path, parse_qs(parts.query).get("reference", [""])[0]

    def _answer(self, status: int, body: object, headers: Mapping[str, str] | None = None) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)
