"""The three ways to run the same shop, side by side."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the demo's table."""

    name: str
    """Its heading, and its word on the command line."""
    env: dict[str, str] = field(default_factory=dict)
    """What makes it different: environment variables of the shop."""
    acks_late: bool = True
    """Whether a message is acknowledged after its job, not before."""
    proves: str
    """The harm that this column has to show: "lost" or "twice"; "none" for ours."""


COLUMNS = (
    Column(name="celery", env={"SHOP_BASE": "celery.Task"}, acks_late=False, proves="lost"),
    Column(name="acks_late", env={"SHOP_BASE": "celery.Task", "SHOP_ACKS_LATE": "1"}, proves="twice"),
    Column(name="celery-replay", env={"SHOP_BASE": "django_celery_replay:ReplayTask"}, proves="none"),
)
