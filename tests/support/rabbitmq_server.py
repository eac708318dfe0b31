"""A virtual host on the RabbitMQ that runs here."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack

from tests.support.net import LOCALHOST, answers

USER = "guest"
COMMAND_TIMEOUT_S = 30


def shared(stack: ExitStack, host: str = LOCALHOST, port: int = 5672) -> str | None:
    """Return the address of a virtual host of our own, or of the default one where we may not make any."""
    if not answers(port, host):
        return None
    base = f"amqp://{USER}:guest@{host}:{port}"
    name = f"celery-replay-tests-{os.getpid()}"
    if not (_control("add_vhost", name) and _control("set_permissions", "-p", name, USER, ".*", ".*", ".*")):
        return f"{base}//"
    stack.callback(_control, "delete_vhost", name)
    return f"{base}/{name}"


def _control(*arguments: str) -> bool:
    tool = shutil.which("rabbitmqctl") or shutil.which("rabbitmqctl", path="/usr/sbin:/usr/local/sbin")
    if tool is None:
        return False
    try:
        done = subprocess.run([tool, "-q", *arguments], capture_output=True, timeout=COMMAND_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
