"""What is looked at once, before a process uses a server: is it ours to use, and does it keep what it is given?

A server that was restarted or has failed over would be noticed here, by its run id, before it grants anything: so far
nothing follows from that.
"""

from __future__ import annotations

from ...exceptions import ConfigurationError, SchemaMismatch
from .faults import Refused
from .links import Link

SCHEMA = 1
"""Version of the keys and their values: a process that does not know it must not touch them."""


def check(link: Link, place: str, *, evicting: bool) -> None:
    """Check a server.

    Args:
        evicting: it may drop records when its memory is full.

    Raises:
        SchemaMismatch: a newer version has written there.
        ConfigurationError: it would drop records.
    """
    _check_schema(link, place)
    if not evicting:
        _check_eviction(link, place)


def _check_schema(link: Link, place: str) -> None:
    found = link.do("GET", "schema")
    if found is None:
        link.do("SET", "schema", SCHEMA, "NX")
        found = link.do("GET", "schema")
    if int(found) != SCHEMA:
        raise SchemaMismatch(
            f"{place} was written by version {int(found)} of the store, and this process knows version {SCHEMA}: "
            "upgrade celery-replay in this process, or give it a prefix of its own in replay_options"
        )


def _check_eviction(link: Link, place: str) -> None:
    try:
        memory = dict(line.split(b":", 1) for line in link.ask("INFO", "memory").split(b"\r\n") if b":" in line)
    except Refused:
        # Some who run Redis for others allow nobody to look.
        return
    policy = memory.get(b"maxmemory_policy", b"noeviction").decode()
    if int(memory.get(b"maxmemory", 0)) and policy != "noeviction":
        raise ConfigurationError(
            f"{place} drops records when its memory is full (maxmemory-policy {policy}), and a job whose record is "
            'gone runs again: set maxmemory-policy to noeviction, or replay_options = {"evicting": True} if you '
            "accept that"
        )
