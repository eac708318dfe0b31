"""The world outside: a carrier, a payment gateway and a mail server, in a process of their own.

Not idempotent, on purpose: every POST sells another label or takes the money again. Each call
takes effect at once and is answered a moment later; a client that dies in between never learns it.

    python -m example_project.outside [port]
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ANSWER_DELAY = 0.2
"""Seconds between the effect and the answer."""

Entry = dict[str, Any]


class World:
    """Everything that was sold and charged."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._books: dict[str, dict[str, list[Entry]]] = {
            "/labels": defaultdict(list),
            "/charges": defaultdict(list),
            "/receipts": defaultdict(list),
            "/gifts": defaultdict(list),
        }
        self.mail_is_down = False
        self._asked = 0
        self._answering: list[Entry] = []

    @contextmanager
    def answering(self, client: str, order: str) -> Iterator[None]:
        """Note who waits for an answer about which order."""
        call = {"client": client, "order": order}
        with self._lock:
            self._answering.append(call)
        try:
            yield
        finally:
            with self._lock:
                self._answering.remove(call)

    def add(self, book: str, entry: Entry) -> Entry:
        with self._lock:
            entries = self._books[book][entry["order"]]
            entries.append({**entry, "id": f"{book.strip('/s')}-{entry['order']}-{len(entries) + 1}"})
            return entries[-1]

    def find(self, book: str, order: str) -> list[Entry]:
        with self._lock:
            self._asked += 1
            return list(self._books[book].get(order, []))

    def stats(self) -> dict[str, Any]:
        """Count what was sold, charged and asked; name who waits for an answer."""
        with self._lock:
            charges = self._books["/charges"]
            return {
                "labels": {order: len(sold) for order, sold in self._books["/labels"].items()},
                "charges": {order: len(taken) for order, taken in charges.items()},
                "receipts": {order: len(sent) for order, sent in self._books["/receipts"].items()},
                "gifts": {order: len(sent) for order, sent in self._books["/gifts"].items()},
                "overcharged_cents": sum(entry["amount"] for taken in charges.values() for entry in taken[1:]),
                "asked": self._asked,
                "answering": list(self._answering),
            }


class Handler(BaseHTTPRequestHandler):
    """Answers JSON; `/stats` at once, the rest after the delay."""

    world: World

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/mail":
            self.world.mail_is_down = body["down"]
            self._answer(body)
        elif self.path == "/receipts" and self.world.mail_is_down:
            self._answer({"error": "the mail server is down"}, 503)
        else:
            self._answer_late(body["order"], self.world.add(self.path, body))

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/stats":
            self._answer(self.world.stats())
        else:
            order = parse_qs(url.query)["order"][0]
            self._answer_late(order, self.world.find(url.path, order))

    def _answer_late(self, order: str, content: Any) -> None:
        with self.world.answering(self.headers["User-Agent"], order):
            time.sleep(ANSWER_DELAY)
        self._answer(content)

    def _answer(self, content: Any, status: int = 200) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    """A server whose clients may die at any time."""

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def main() -> None:
    """Serve until killed; the first line printed is the address."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    handler = type("WorldHandler", (Handler,), {"world": World()})
    server = Server(("127.0.0.1", port), handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    with suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
