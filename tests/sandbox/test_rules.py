"""What is judged to lead out, and what is told of it."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from celery_replay.sandbox.rules import rules


@pytest.fixture
def judged(folder: Path) -> Any:
    ruled = rules(folder)
    return lambda event, *arguments: ruled[event](*arguments)


WRITING = os.O_WRONLY | os.O_CREAT


def test_a_path_of_any_type_is_judged_by_where_it_leads(judged: Any, folder: Path) -> None:
    for path in (folder / "a", str(folder / "a"), bytes(folder / "a"), folder / "b" / ".." / "a", os.devnull):
        assert judged("open", path, "w", WRITING) is None
    for path in (folder.parent / "a", folder / ".." / "a", f"{folder}-beside", bytes(folder.parent)):
        assert judged("open", path, "w", WRITING)


def test_reading_leads_nowhere(judged: Any) -> None:
    assert judged("open", "/etc/passwd", "r", os.O_RDONLY | os.O_CLOEXEC) is None


def test_an_opened_file_is_not_judged_again(judged: Any) -> None:
    assert judged("open", 1, "w", WRITING) is None


def test_links_are_followed_where_the_system_follows_them(judged: Any, folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "target")
    assert judged("open", folder / "link", "w", WRITING) == str(folder.parent / "target")
    assert judged("os.remove", folder / "link", -1) is None
    (folder.parent / "to").symlink_to(folder)
    assert judged("os.remove", folder.parent / "to", -1) == str(folder.parent / "to")
    assert judged("os.remove", folder.parent / "to" / "inside", -1) is None


def test_a_name_may_be_in_a_folder_that_is_known_by_number(judged: Any, folder: Path) -> None:
    for place, leads_out in ((folder, False), (folder.parent, True)):
        number = os.open(place, os.O_RDONLY)
        try:
            assert bool(judged("os.rmdir", "name", number)) is leads_out
            assert bool(judged("os.chmod", number, 0o700, -1)) is leads_out
        finally:
            os.close(number)


@pytest.mark.parametrize(
    ("event", "arguments", "told"),
    [
        ("socket.connect", (None, ("10.0.0.1", 5432)), "10.0.0.1:5432"),
        ("socket.connect", (None, ("::1", 80, 0, 0)), "::1:80"),
        ("socket.connect", (None, b"\x00abstract"), "@abstract"),
        ("socket.connect", (None, 3), ""),
        ("socket.getaddrinfo", (b"example.org", "https", 0, 0, 0), "example.org:https"),
        ("socket.gethostbyname", ("example.org",), "example.org"),
        ("socket.sendmsg", (None, None), None),
        ("socket.__new__", (None, socket.AF_INET6, 1, 0), "of AF_INET6"),
        ("socket.__new__", (None, 999, 1, 0), "of 999"),
        ("socket.__new__", (None, socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 0), None),
        ("ftplib.connect", (None, "example.org", 21), "example.org:21"),
        ("subprocess.Popen", (b"/bin/curl", ["curl", "-u", "me:secret"], None, None), "/bin/curl"),
        ("subprocess.Popen", (None, "curl", None, {}), "curl"),
        ("os.system", ("A=secret B=c curl -u me:secret",), "curl"),
        ("os.system", (b"",), ""),
        ("os.kill", (os.getpid(), 9), None),
        ("os.kill", (1, 9), "signal 9 to process 1"),
        ("resource.prlimit", (0, 1, None), None),
        ("resource.prlimit", (1, 1, None), "limits of process 1"),
        ("sqlite3.connect", (":memory:",), None),
        ("sqlite3.connect", (b"",), None),
        ("sqlite3.connect", ("file:shared?mode=memory&cache=shared",), None),
        ("sqlite3.connect", ("file:/var/lib/a%20b?mode=ro",), "/var/lib/a b"),
        ("syslog.syslog", (1, "secret"), ""),
    ],
)
def test_an_address_a_program_or_a_path_is_told_and_nothing_else(
    judged: Any, event: str, arguments: tuple[Any, ...], told: str | None
) -> None:
    assert judged(event, *arguments) == told
