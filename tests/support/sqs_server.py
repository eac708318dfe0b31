"""A server that speaks the protocol of Amazon SQS: moto's, on this machine."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.support.net import LOCALHOST, answers, free_port
from tests.support.processes import LoggedProcess

REGION = "eu-west-1"


def url(stack: ExitStack) -> str:
    """Start one that ends with the stack; return it as Celery's broker URL."""
    folder = Path(tempfile.mkdtemp(prefix="celery-replay-sqs-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", LOCALHOST, "-p", str(port)]
    server = LoggedProcess(command, folder / "server.log")
    stack.callback(server.kill)
    server.launch()
    server.wait_for(lambda: answers(port), 20, "the SQS server answers")
    return f"sqs://key:secret@{LOCALHOST}:{port}/"


def transport_options(visibility_timeout: int) -> dict[str, object]:
    """Return what kombu needs to know beside the URL."""
    return {
        "region": REGION,
        "is_secure": False,
        "visibility_timeout": visibility_timeout,
        "wait_time_seconds": 1,
        "polling_interval": 0.2,
    }
