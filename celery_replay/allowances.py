"""Which side effects a replay may do, and that it does no other one."""

from __future__ import annotations

from .exceptions import EffectNotAllowed
from .headers import BODY


class Allowance:
    """What one attempt may do outside.

    Args:
        names: the side effects that its replay may do; None where all may be done, as in a job that is no replay.
    """

    __slots__ = ("_barred", "_names")

    def __init__(self, names: tuple[str, ...] | None) -> None:
        self._names = names
        self._barred: EffectNotAllowed | None = None

    def includes(self, name: str) -> bool:
        """May it be done?"""
        return self._names is None or name in self._names

    def refuse(self, name: str) -> None:
        """Refuse a side effect, before anything of it is done.

        Raises:
            EffectNotAllowed: always.
        """
        known = ", ".join(self._names or ()) or "nothing"
        what = "what the body does outside of its steps" if name == BODY else f"step {name}"
        self._barred = EffectNotAllowed(
            f"{what} is not on this replay's list ({known}); replay its letter again with --allow {name}"
        )
        raise self._barred

    def check(self) -> None:
        """Refuse success to a body that went on as if it had done what it may not.

        Raises:
            EffectNotAllowed: something was refused.
        """
        if self._barred is not None:
            raise self._barred
