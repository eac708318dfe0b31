"""Erase a person's data: from the records of jobs, and from the markers of their effects."""

from __future__ import annotations

from collections.abc import Iterator

from . import dead_letters
from .dead_letters import Decision
from .exceptions import ConfigurationError
from .records import Chunk, Job
from .replay.lineage import descendants
from .runtime import Runtime
from .serialization import safe_text
from .snapshots.reading import parts_of_each
from .states import Verb
from .stores.base import Store
from .stores.reading import Position
from .targets import target_of
from .trace import stripped, timeline


def jobs_of_key(store: Store, key: str, task: str = "") -> Iterator[Job]:
    """Yield all jobs with a key: who ran, duplicates that got its result, replays."""
    before: Position | None = None
    while page := store.find_jobs(key=safe_text(key, 500), operation=task, before=before, limit=500):
        yield from page
        before = page[-1].started_at, page[-1].submission


def family(store: Store, job: Job) -> list[Job]:
    """Return a job and its replays: they carry the same payload."""
    first = (store.job(job.original) if job.original else None) or job
    history = store.history(submission=first.submission, limit=10_000)
    replays = [one.job for one in descendants(store, history) if one.job is not None]
    return list({one.submission: one for one in (first, *replays)}.values())


def erase(runtime: Runtime, job: Job, actor: str, text: str) -> str:
    """Erase a person's data from all that is kept of a job that ended.

    Ids, outcomes, times and the digest of its key stay, so that a duplicate still finds that the job was done. What
    others keep is not reached: the broker, Celery's result backend, logs.

    Args:
        text: why. It stays, so it must not name the person.

    Returns:
        What could not be reached of it, as a sentence; empty where nothing is left.

    Raises:
        TriageRefused: it has not ended, or its message is still needed.
    """
    letter = runtime.store.letter(job.submission)
    told = dead_letters.declared(letter.message if letter else b"")
    parts = parts_of_each(timeline(runtime.store, job.trace_id), runtime.store.blobs)

    def strip(chunk: Chunk, of: Job) -> tuple[Chunk | None, set[str]]:
        rest, references = stripped(chunk, of)
        return rest, references.union(*(parts.get(reference, ()) for reference in references))

    runtime.store.erase(job.submission, Decision(verb=Verb.ERASED, actor=actor, text=text), strip)
    return _erase_marker(runtime, job, atomic=told.get("protection") == "atomic")


def _erase_marker(runtime: Runtime, job: Job, *, atomic: bool) -> str:
    task = runtime.app.tasks.get(job.operation)
    if task is None:
        return "its task is not registered here, so its marker keeps the result" if atomic else ""
    try:
        for alias in runtime.policy(task).atomic:
            target_of(task).erase(alias, job.identity)
    except ConfigurationError as error:
        return f"its marker keeps the result: {error.message}"
    return ""
