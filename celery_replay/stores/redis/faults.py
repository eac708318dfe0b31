"""What a server's refusals and silences mean to the store."""

from __future__ import annotations

from redis import exceptions

OTHER_RUN = "OTHERRUN"
"""How a script's refusal begins that was meant for another run of the store; `common.lua` says it."""

_OUT_OF_REACH = (exceptions.ConnectionError, exceptions.TimeoutError, OSError)
_A_NODE = "it is a node of a cluster, which this store can't use: give it a server of its own"
_ACL = (
    "its ACL forbids something that the store does: allow this user +@all -@admin -@dangerous +info, and the keys that "
    "begin with the prefix"
)
TROUBLE = (exceptions.RedisError, OSError)
_NOT_NOW: dict[type[Exception] | str, str] = {
    exceptions.OutOfMemoryError: "it is full, and keeps what it has: give it more memory",
    exceptions.ReadOnlyError: "it is a replica, which takes no writes: name its master, or sentinels that know it",
    exceptions.BusyLoadingError: "it is loading its data",
    exceptions.MasterDownError: "it is a replica that has lost its master",
    exceptions.ClusterDownError: "its cluster is down",
    exceptions.TryAgainError: "its cluster is being moved",
    OTHER_RUN: "it may have lost what it knew",
    "MISCONF": "it can't save to its disk, and takes no writes until it can: its log says why",
    "NOREPLICAS": "too few replicas follow it (min-replicas-to-write)",
    "BUSY ": "a script of somebody's keeps it busy: SCRIPT KILL ends that",
}
"""What a server says that will serve later, by the error's class, or the beginning of one without."""
_NOT_SO: dict[type[Exception] | str, str] = {
    exceptions.AuthenticationError: "it wants another user name or password, in the URL or in replay_options",
    exceptions.NoPermissionError: _ACL,
    "ACL failure in script": _ACL,
    exceptions.MovedError: _A_NODE,
    exceptions.ClusterCrossSlotError: _A_NODE,
}
"""What a server says that is not set up for us."""


class Lost(Exception):
    """The connection went away, or the server can't serve now.

    Args:
        sent: it may have done what it was asked.
        answered: the server itself said so.
    """

    def __init__(self, message: str, *, sent: bool, answered: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.answered = answered


class Refused(Exception):
    """The server does not do that."""


class Denied(Refused):
    """The server would, if somebody changed its settings or ours; the message says which."""


def trouble_of(error: Exception, *, sent: bool) -> Exception:
    """Say what an error means to the store: come later, mend something, or a refusal that should not be."""
    told = next((said for sign, said in _NOT_SO.items() if _is(error, sign)), None)
    if told is not None:
        return Denied(f"{told} ({error})")
    told = next((said for sign, said in _NOT_NOW.items() if _is(error, sign)), None)
    if told is not None:
        # It looks before it writes, so nothing was done.
        return Lost(f"{told} ({error})", sent=False, answered=True)
    return Lost(str(error), sent=sent) if isinstance(error, _OUT_OF_REACH) else Refused(str(error))


def _is(error: Exception, sign: type[Exception] | str) -> bool:
    return str(error).startswith(sign) if isinstance(sign, str) else isinstance(error, sign)
