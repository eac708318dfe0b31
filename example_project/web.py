"""The shop's admin with something in it: jobs, traces, dead letters to be decided on, and a worker that replays them.

python -m example_project.web [--port 8000]
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .harness.columns import COLUMNS
from .harness.letters import Triage
from .harness.processes import ROOT, Shop, shop
from .harness.rounds import play
from .harness.screen import make_screen

USER = "demo"
READY = """
The admin is at http://127.0.0.1:{port}/admin/ until you press Ctrl-C.
User {user}, password {password}.

The mail server is back since the receipts failed, so they can be replayed; two of them need another address first.
"""


def main() -> int:
    """Fill the shop, and serve it."""
    options = arguments()
    folder = Path(tempfile.mkdtemp(prefix="celery-replay-web-"))
    screen = make_screen()
    try:
        with shop(folder / "shop", COLUMNS[-1].env) as running:
            play(COLUMNS[-1], running, options.orders, 7, screen)
            screen.close()
            serve(running, options.port)
    except KeyboardInterrupt:
        pass
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def serve(running: Shop, port: int) -> None:
    """Let receipts fail, make a user, and serve."""
    triage = Triage(running)
    triage.fail()
    triage.mail(down=False)
    password = secrets.token_urlsafe(9)
    running.env |= {"DJANGO_SUPERUSER_PASSWORD": password}
    running.manage("createsuperuser", "--noinput", "--username", USER, "--email", "demo@example.org")
    print(READY.format(port=port, user=USER, password=password), flush=True)
    manage = str(ROOT / "example_project" / "manage.py")
    command = [sys.executable, manage, "runserver", f"127.0.0.1:{port}", "--noreload", "--insecure"]
    with subprocess.Popen(command, env=running.env, cwd=ROOT) as server:
        server.wait()


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m example_project.web", description=__doc__)
    parser.add_argument("--orders", type=int, default=12)
    parser.add_argument("--port", type=int, default=8000)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
