"""How a dead letter is dry-run: by what is recorded of its job, and the message that a replay would send."""

from __future__ import annotations

from ..records import Letter
from ..stores.base import Store
from .engine import Begun, Engine, NotRunnable
from .recording import Recording, recording_of


def recorded(store: Store, letter: Letter, message: bytes | None = None, *, depth: int = 0) -> Recording:
    """Return what is recorded of a letter's job.

    Args:
        message: with other arguments; by default the one that a replay would send.
        depth: how deep what the job had published is read, too.

    Raises:
        NotRunnable: its job is not known any more.
        PayloadUnreadable: its message was not kept, or is not JSON.
    """
    job = store.job(letter.submission)
    if job is None:
        raise NotRunnable("its job is not known any more")
    mended = letter.edited is not None or (message is not None and message != letter.to_send)
    return recording_of(store, job, letter.to_send if message is None else message, mended=mended, depth=depth)


def begin(engine: Engine, store: Store, letter: Letter) -> Begun:
    """Begin its dry run, as it is recorded."""
    return engine.begin(recorded(store, letter))
