"""Values in Redis that refuse an older owner: `SET` and `DEL` with a fencing token, one script each.

The token of whoever wrote last is kept under a name of its own, in the same slot of a cluster. It outlives the value,
so that an older owner can't bring back what a newer one has deleted.
"""

from __future__ import annotations

import inspect
from typing import Any

from ..exceptions import ConfigurationError
from ..guards import refusal

FENCE_TTL_S = 7 * 86_400
"""Seconds for which a token is remembered after the last write, by default: longer than any lease, or pause."""

_CHECK = """
local seen = redis.call('GET', KEYS[2])
-- As text: Lua's numbers are not exact for large ones.
if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then return {0, seen} end
if ARGV[2] == '' then redis.call('SET', KEYS[2], ARGV[1]) else redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2]) end
"""
_SET = f"""{_CHECK}
if ARGV[4] == '' then redis.call('SET', KEYS[1], ARGV[3])
else redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4]) end
return {{1, 1}}
"""
_DELETE = f"{_CHECK} return {{1, redis.call('DEL', KEYS[1])}}"


def fenced_set(
    client: Any,
    key: str,
    value: str | bytes | float,
    token: int,
    *,
    ttl_s: float | None = None,
    fence_ttl_s: float | None = FENCE_TTL_S,
) -> None:
    """Set a value, unless a newer owner has written it.

    Args:
        client: a `redis.Redis` of the project's own.
        value: as redis-py takes it.
        token: the owner's: `attempt.fence`, or that of a resource; an equal one is let through. Whoever writes the key
            has to have tokens of the same job or resource, and has to write it in this way.
        ttl_s: when the value expires; by default never, as by `SET`.
        fence_ttl_s: how long the token is remembered from now on, by default a week; None keeps it for ever. An owner
            that was paused for longer would be let in, so it must be longer than every lease.

    Raises:
        FenceRefused: a newer owner has written or deleted it.
        ConfigurationError: the client is a pipeline or asynchronous.
    """
    _run(client, _SET, key, token, fence_ttl_s, value, _milliseconds(ttl_s))


def fenced_delete(client: Any, key: str, token: int, *, fence_ttl_s: float | None = FENCE_TTL_S) -> bool:
    """Delete a value, unless a newer owner has written it; the token stays. The arguments are those of `fenced_set`.

    Returns:
        Whether there was one.

    Raises:
        FenceRefused: a newer owner has written or deleted it.
        ConfigurationError: the client is a pipeline or asynchronous.
    """
    return bool(_run(client, _DELETE, key, token, fence_ttl_s))


def fence_key(key: str) -> str:
    """Return the name under which a key's newest token is kept."""
    start = key.find("{")
    has_tag = start >= 0 and key.find("}", start) > start + 1
    # A cluster looks at what is between the first braces, so this is beside the value; unless the key has a brace that
    # closes nothing, where a cluster refuses the script.
    return f"{key}:fence" if has_tag else f"{{{key}}}:fence"


def _run(client: Any, script: str, key: str, token: Any, fence_ttl_s: float | None, *more: Any) -> int:
    if hasattr(client, "command_stack") or inspect.iscoroutinefunction(getattr(client, "execute_command", None)):
        raise ConfigurationError(
            "fenced_set and fenced_delete need a client that answers at once, a `redis.Redis`, and no pipeline or "
            "asynchronous one: they have to see whether they were refused"
        )
    if isinstance(token, bool) or not isinstance(token, int) or token < 0:
        raise ConfigurationError(f"token={token!r}: must be a fencing token, such as `attempt.fence`")
    call = client.register_script(script)
    accepted, found = call(keys=[key, fence_key(key)], args=[token, _milliseconds(fence_ttl_s), *more])
    if not accepted:
        raise refusal(key, "Redis", token)
    return int(found)


def _milliseconds(seconds: float | None) -> int | str:
    return "" if seconds is None else max(1, round(seconds * 1000))
