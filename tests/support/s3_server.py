"""A server that speaks the protocol of Amazon S3: moto's, on this machine."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.support.net import LOCALHOST, answers, free_port
from tests.support.processes import LoggedProcess


def address(stack: ExitStack) -> str:
    """Start one that ends with the stack; return its address."""
    folder = Path(tempfile.mkdtemp(prefix="celery-replay-s3-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", LOCALHOST, "-p", str(port)]
    server = LoggedProcess(command, folder / "server.log")
    stack.callback(server.kill)
    server.launch()
    server.wait_for(lambda: answers(port), 20, "the S3 server answers")
    return f"http://{LOCALHOST}:{port}"
