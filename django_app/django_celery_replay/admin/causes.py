"""How a group of dead letters is named, and how its trend is drawn."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from celery_replay.clock import Micros
from celery_replay.stores.units import HOUR

from ..models import LetterGroup
from .display import column, stored_word

HOURS = 24


def cause(group: LetterGroup) -> str:
    """Name a group by its exception and the innermost of the project's own functions."""
    what = column(group.error_type) if group.error_type else stored_word(group.reason)
    innermost = group.frames.rpartition("\n")[2]
    return f"{what} in {column(innermost)}" if innermost else what


def first_hour(now: Micros) -> Micros:
    """Return when the hours of a trend begin."""
    return now - now % HOUR - (HOURS - 1) * HOUR


def sparkline(counts: Mapping[Micros, int], now: Micros) -> SafeString:
    """Draw how many letters a group got in each of the last hours, and say it in words."""
    hours = _hours(counts, now)
    most = max(*hours, 1)
    # Also one among many is to be seen.
    heights = [max(round(count * 20 / most), 2) if count else 0 for count in hours]
    bars = format_html_join(
        "",
        '<rect x="{}" y="{}" width="3" height="{}"/>',
        ((number * 4, 20 - height, height) for number, height in enumerate(heights) if height),
    )
    return format_html(
        '<svg class="replay-spark" viewBox="0 0 {0} 21" preserveAspectRatio="xMinYMid" role="img">'
        '<title>{1}</title>{2}<path class="replay-axis" d="M0 20.5H{0}"/></svg>',
        HOURS * 4,
        said_of(counts, now),
        bars,
    )


def said_of(counts: Mapping[Micros, int], now: Micros) -> str:
    """Say what a trend shows."""
    hours = _hours(counts, now)
    return f"{sum(hours):,} in {HOURS} hours, {max(hours):,} in the busiest hour, {hours[-1]:,} in this one"


def _hours(counts: Mapping[Micros, int], now: Micros) -> list[int]:
    start = first_hour(now)
    return [counts.get(start + number * HOUR, 0) for number in range(HOURS)]
