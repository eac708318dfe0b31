"""Processes that are killed at any moment between OPEN and acknowledgement: effect and marker are there, or neither is.

`make chaos` does it longer. A failure tells its seed; REPLAY_CHAOS_SEED makes it happen again.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from tests.django_store.kills.lives import EFFECTS
from tests.support.django_stores import database_alias, empty_tables
from tests.support.workers import ROOT, SOURCES

KILLS = 10 * int(os.environ.get("REPLAY_CHAOS_ROUNDS", "4"))
SEED = int(os.environ.get("REPLAY_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))
KINDS: dict[str, dict[str, Any]] = {
    "sqlite, records in memory": {"aliases": ["sqlite"], "ledger": None, "share": 2},
    "sqlite, records in another file": {"aliases": ["sqlite"], "ledger": "records", "share": 2},
    "postgresql, records in memory": {"aliases": ["postgresql"], "ledger": None, "share": 2},
    "postgresql, records in sqlite": {"aliases": ["postgresql"], "ledger": "records", "share": 2},
    "postgresql, records in redis": {"aliases": ["postgresql"], "ledger": "redis", "share": 2},
    "mariadb, records in postgresql": {"aliases": ["mariadb"], "ledger": "postgresql", "share": 1},
    "postgresql and sqlite": {"aliases": ["postgresql", "sqlite"], "ledger": None, "share": 3},
}
"""The business databases, where the records are, and the share of all deaths."""
URLS = {"sqlite": "sqlite_url", "postgresql": "postgres_dsn", "mariadb": "mariadb_url", "redis": "redis_url"}


def _plan(databases: dict[str, str], ledgers: dict[str, str]) -> dict[str, Any]:
    chance = random.Random(SEED)
    kinds = {
        name: {**kind, "name": name, "ledger": ledgers.get(kind["ledger"])}
        for name, kind in KINDS.items()
        if databases.keys() >= {*kind["aliases"]} and (kind["ledger"] is None or kind["ledger"] in ledgers)
    }
    jobs: dict[str, Any] = {}
    each = KILLS / sum(kind["share"] for kind in kinds.values())
    for name, kind in kinds.items():
        deaths = max(1, round(each * kind["share"]))
        while deaths > 0:
            mine = min(deaths, chance.choice([1, 1, 2]))
            deaths -= mine
            where = [(chance.choice(["anywhere", "at a commit"]), chance.random()) for _ in range(mine)]
            jobs[f"job {len(jobs)}"] = {"kind": name, "deaths": where}
    return {"databases": databases, "kinds": kinds, "jobs": jobs, "rounds": 3}


def _present(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Yield the databases that are here; a server that is not takes only its own kinds of jobs away."""
    for alias, url in URLS.items():
        with suppress(pytest.skip.Exception):
            yield alias, str(request.getfixturevalue(url))


@pytest.fixture(scope="module")
def lived(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run all jobs through their deaths; return the plan, and what became of it."""
    folder: Path = tmp_path_factory.mktemp("kills")
    databases = dict(_present(request))
    databases["records"] = f"sqlite:///{folder}/records.sqlite3"
    redis = databases.pop("redis", None)
    with django_db_blocker.unblock():
        for url in databases.values():
            alias = database_alias(url)
            empty_tables(alias)
            with connections[alias].cursor() as cursor:
                cursor.execute(f"DROP TABLE IF EXISTS {EFFECTS}")
                cursor.execute(f"CREATE TABLE {EFFECTS} (reference varchar(100))")
            connections[alias].close()
    plan = _plan(databases, {name: name for name in databases} | ({"redis": redis} if redis else {}))
    done = subprocess.run(
        [sys.executable, "-m", "tests.django_store.kills"],
        input=json.dumps(plan),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(SOURCES)},
        capture_output=True,
        text=True,
        timeout=60 + KILLS,
        check=False,
    )
    assert done.returncode == 0, f"seed {SEED}: {done.stderr}"
    return plan, json.loads(done.stdout)


@pytest.mark.xdist_group("kills")
@pytest.mark.timeout(120 + KILLS)
@pytest.mark.parametrize("name", KINDS)
def test_effect_and_marker_are_there_once_or_neither_is(name: str, lived: Any) -> None:
    plan, told = lived
    if name not in plan["kinds"]:
        pytest.skip("a server is not here")
    jobs = {reference: job for reference, job in plan["jobs"].items() if job["kind"] == name}
    assert sum(told["jobs"][reference]["killed"] for reference in jobs) > 0, f"seed {SEED}: nobody was killed"
    for reference, job in jobs.items():
        became = told["jobs"][reference]
        where = f"seed {SEED}: {reference} of {name}, deaths {job['deaths']}: {became}"
        for counts in became["found"]:
            assert all(count in ([0, 0], [1, 1]) for count in counts.values()), where
        assert all(count == [1, 1] for count in became["found"][-1].values()), where
        end = became["end"]
        assert end["error"] is None, where
        assert end["result"] == reference or end["jobs"] == ["succeeded"], where
        assert end["jobs"] == ["succeeded"], where
