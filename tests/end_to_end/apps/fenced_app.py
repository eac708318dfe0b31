"""Jobs whose rows are written behind a fence, and that stop where a test wants it."""

from __future__ import annotations

from typing import Any

from django.db import connection

from tests.end_to_end.apps.killpoints import reach
from tests.end_to_end.apps.project import EFFECTS_TABLE, make_app

app = make_app("fenced")


def look(reference: str) -> str | None:
    """Return the reference if its row is there."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {EFFECTS_TABLE} WHERE reference = %s", [reference])
        return reference if cursor.fetchone() else None


@app.task(name="ship", bind=True, idempotency_key="{reference}", verify=look, fenced="default")
def ship(self: Any, reference: str) -> str:
    """Write a row with the fence of whoever wrote it."""
    reach("before", reference)
    with self.attempt.fenced(), connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {EFFECTS_TABLE} (reference, fence) VALUES (%s, %s)", [reference, self.attempt.fence]
        )
        reach("inside", reference)
    return reference
