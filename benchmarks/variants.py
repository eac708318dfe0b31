"""What is compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

POOLS = ("prefork", "solo", "threads")
PLAIN = "plain"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to run the task."""

    name: str
    about: str
    app: str
    """Its module in `benchmarks.apps`."""
    database: str = ""
    """postgresql, sqlite or none: a database of its own, in a Django project."""
    synchronous_commit: str = ""
    store: str = ""
    """`replay_store`, for ours; `redis` is the broker's."""
    redis_results: bool = False
    backend: str = ""
    pools: tuple[str, ...] = POOLS
    bodies: tuple[int, ...] = (0,)
    """Milliseconds that the task's body takes, in the runs that it is part of."""
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """Is it celery-replay?"""
        return self.app.startswith("ours")


_ALL_BODIES = (0, 10, 50)

VARIANTS = (
    Variant(name=PLAIN, about="Celery, acknowledged late, result ignored", app="plain", bodies=_ALL_BODIES),
    Variant(
        name="plain-django",
        about="the same in a Django project, with Celery's Django fixup",
        app="plain",
        database="postgresql",
    ),
    Variant(name="redis-results", about="+ Celery's Redis result backend", app="plain", redis_results=True),
    Variant(name="celery-once", about="lock at publishing", app="once"),
    Variant(name="celery-singleton", about="lock at publishing", app="singleton"),
    Variant(
        name="django-results",
        about="django-celery-results on PostgreSQL, default settings",
        app="plain",
        database="postgresql",
        backend="django-db",
    ),
    Variant(
        name="django-results-reuse",
        about="the same with CELERY_DB_REUSE_MAX",
        app="plain",
        database="postgresql",
        backend="django-db",
        env={"BENCH_DB_REUSE_MAX": "1000000"},
    ),
    Variant(
        name="floor-pg-off",
        about="one INSERT and one UPDATE on a held psycopg connection, synchronous_commit off: what no guard can beat",
        app="floor",
        database="postgresql",
        synchronous_commit="off",
    ),
    Variant(
        name="floor-pg-on",
        about="the same, synchronous_commit on",
        app="floor",
        database="postgresql",
        synchronous_commit="on",
    ),
    Variant(
        name="base-pg-off",
        about="celery-replay, nothing declared, PostgreSQL, synchronous_commit off",
        app="ours_base",
        database="postgresql",
        synchronous_commit="off",
        store="django",
    ),
    Variant(
        name="base-pg-on",
        about="the same, synchronous_commit on",
        app="ours_base",
        database="postgresql",
        synchronous_commit="on",
        store="django",
    ),
    Variant(
        name="full-pg-off",
        about="celery-replay, everything on, PostgreSQL, synchronous_commit off",
        app="ours_full",
        database="postgresql",
        synchronous_commit="off",
        store="django",
        bodies=_ALL_BODIES,
    ),
    Variant(
        name="full-pg-on",
        about="the same, synchronous_commit on",
        app="ours_full",
        database="postgresql",
        synchronous_commit="on",
        store="django",
        bodies=_ALL_BODIES,
    ),
    Variant(
        name="base-redis", about="celery-replay, nothing declared, the broker's Redis", app="ours_base", store="redis"
    ),
    Variant(
        name="full-redis",
        about="celery-replay, everything on, the broker's Redis",
        app="ours_full",
        store="redis",
        bodies=_ALL_BODIES,
    ),
    Variant(
        name="full-sqlite",
        about="celery-replay, everything on, SQLite",
        app="ours_full",
        database="sqlite",
        store="django",
    ),
    Variant(
        name="full-memory",
        about="celery-replay, everything on, memory",
        app="ours_full",
        store="memory://",
        pools=("solo", "threads"),
    ),
)
