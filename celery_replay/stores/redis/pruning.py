"""What is past its retention is deleted: in small portions, each of which can be done again."""

from __future__ import annotations

from ...clock import Micros
from ...states import LetterState, Outcome
from . import scripts
from .codec import text_of
from .links import Argument, Link

OVER = "\t".join(["", *sorted(o.value for o in Outcome if o.over), ""])
THROUGH = "\t".join(["", *sorted(s.value for s in LetterState if not s.unresolved), ""])


def jobs(link: Link, clock: Argument, limit: int) -> int:
    """Delete jobs among the next ones of the index, and what hangs on them; return how many."""
    gone = 0
    for _ in range(20):
        begin = link.do("GET", "pruned") or b"-"
        last, count = link.call(scripts.PRUNE, clock, begin, 500, limit - gone, OVER, "", THROUGH)
        gone += count
        if not last:
            link.do("DEL", "pruned")
            break
        link.do("SET", "pruned", b"(" + last)
        if gone >= limit:
            break
    return gone


def operations(link: Link, now: Micros, limit: int) -> None:
    """Delete operations with their letters, and what was done to them as a whole."""
    old = link.do("ZRANGEBYSCORE", "ops:over", "-inf", now, "LIMIT", 0, limit)
    for name in map(text_of, old):
        for entry in map(text_of, link.do("HKEYS", f"h:o:{name}")):
            place = f"o:{name}\t{entry}"
            link.each("ZREM", [(index, place) for index in ("history", f"ho:{name}")])
        link.many("DEL", [f"portions:{name}", f"h:o:{name}", f"op:{name}"])
        # What it is found by last: whoever is killed before that does it again.
        link.each("ZREM", [(index, name) for index in ("ops", "ops:active", "ops:over")])
