"""Traces: events of an attempt, buffered, packed in chunks, read back as a timeline."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from celery.exceptions import SoftTimeLimitExceeded

from .clock import Micros, wall
from .exceptions import TriageRefused
from .records import AttemptRecord, Chunk, Event, Job, evolve, form
from .redaction import REDACTED, is_secret, kept_text, redact
from .serialization import bytes_digest, pack, safe_text, unpack
from .states import Capture, Outcome

INLINE_LIMIT = 1024
"""Bytes of JSON that an event attribute may have; larger values go to a blob."""
VALUE_LIMIT = 1_000_000
"""Characters of JSON that a value may have; of a larger one the beginning is kept, as text."""
ATTRIBUTES_LIMIT = 100
"""Attributes that an event may have; the others are left out."""
MESSAGE_LIMIT = 500
SUMMARY = "summarised"
"""The event that stands for all others of a trace whose details were not kept longer."""
BUFFER_LIMIT = 10_000
"""Events that an attempt may hold while the store is away; later ones are counted, not kept."""

_UNTOLD = frozenset(
    {
        "celery", "kombu", "python", "acks_late", "reject_on_worker_lost", "max_retries", "argument_types",
        "call_digest", "input_digest",
    }
)  # fmt: skip
"""Attributes that every attempt has: kept with the events, and no part of the story."""

_WELL = (Outcome.OPEN, Outcome.SUCCEEDED, Outcome.DEDUPLICATED, Outcome.STALE_IGNORED, Outcome.IGNORED)
_LARGE = 1 << 63
_FORMAT = 1
_OPTIONAL = ("step", "resource_version", "input_ref", "output_ref", "fence")
_CHUNK = form(Chunk(trace_id="", nonce="", first=0, count=0, body=b""))
_REFERENCES = {"arguments": "input_ref", "result": "output_ref"}
PAYLOADS = frozenset(_REFERENCES)
"""Attributes of the life cycle's own events in which there is what the job was given, and what it gave."""


class Recorder:
    """Collects one attempt's events; thread-safe, never raises for what it is given.

    Args:
        about: what is the same for all of the attempt's events; said once per chunk.
        capture: how much of the job's data is written down.
        secrets: returns texts that are known to be secret.
    """

    def __init__(
        self,
        trace_id: str,
        nonce: str,
        about: Mapping[str, Any],
        *,
        capture: Capture = Capture.KEYS,
        secrets: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self.trace_id = trace_id
        self.nonce = nonce
        self.about = dict(about)
        self.capture = capture
        self.secrets = secrets
        self._lock = threading.Lock()
        self._events: list[list[Any]] = []
        self._blobs: list[tuple[str, bytes]] = []
        self._sequence = 0
        self._start = 0
        self.dropped = 0
        self.witnessed: list[tuple[str, Mapping[str, Any]]] | None = None
        """Events with their attributes as they were given, for post-conditions; they are kept nowhere."""

    def record(
        self,
        name: str,
        *,
        at: Micros | None = None,
        domain: bool = False,
        status: str = "success",
        side_effect: bool = False,
        attributes: Mapping[str, Any] | None = None,
        plain: dict[str, Any] | None = None,
        blobs: Mapping[str, bytes] | None = None,
        **fields: str | int | None,
    ) -> None:
        """Add an event.

        Args:
            attributes: anything; what is secret is redacted, what is large is put aside. Those of a domain event are
                the job's data, so they depend on the capture level.
            plain: attributes of our own instead, short JSON data without secrets.
            blobs: what it refers to, by reference, to be kept as long as the trace.
            fields: step, resource_version, input_ref, output_ref; fence, where it is not the job's.
        """
        if self.witnessed is not None and len(self.witnessed) < BUFFER_LIMIT:
            self.witnessed.append((name, attributes or {}))
        flags = domain | side_effect << 1
        if domain:
            name = safe_text(name, 200)
            attributes = attributes if self.capture is not Capture.NONE else None
        shown = plain
        if attributes:
            shown, apart = self._inline(attributes)
            if not domain:
                fields |= {_REFERENCES[key]: apart[key] for key in PAYLOADS & apart.keys()}
        extra = {key: fields[key] for key in _OPTIONAL if fields.get(key) is not None} if fields else None
        said = (shown, extra) if extra else (shown,) if shown is not None else ()
        self._add(name, at or wall(), flags, status, *said, blobs=blobs)

    def note(self, name: str, plain: Mapping[str, Any] | None = None, *, at: Micros | None = None) -> None:
        """Add an event of the life cycle that went well.

        Args:
            plain: attributes of our own, short JSON data without secrets.
        """
        self._add(name, at or wall(), 0, "success", *(() if plain is None else (plain,)))

    def _add(self, *event: Any, blobs: Mapping[str, bytes] | None = None) -> None:
        with self._lock:
            if len(self._events) >= BUFFER_LIMIT:
                self.dropped += 1
                return
            self._sequence += 1
            self._events.append([self._sequence, *event])
            if blobs:
                self._blobs += blobs.items()

    def given(self, arguments: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Return arguments as an attribute, as they are now, where they are to be kept."""
        if self.capture is not Capture.FULL:
            return {}
        return {"arguments": _plain(arguments(), "", self.secrets())[0]}

    def returned(self, value: Any) -> dict[str, Any]:
        """Return what was returned as an attribute, where it is to be kept."""
        return {"result": value} if self.capture is Capture.FULL else {}

    def said(self, error: BaseException) -> dict[str, Any]:
        """Return an exception as attributes."""
        kind = {"error": type(error).__name__}
        if self.capture is Capture.NONE:
            return kind
        return {**kind, "message": kept_text(error, MESSAGE_LIMIT, self.secrets())}

    def _inline(self, attributes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return attributes as they are written down, and the references of those that were put aside."""
        shown: dict[str, Any] = {}
        apart: dict[str, str] = {}
        for key, value in attributes.items():
            if len(shown) >= ATTRIBUTES_LIMIT:
                shown["…"] = f"[cut] {len(attributes) - len(shown)} more"
                break
            name = safe_text(key, 100)
            if value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < _LARGE):
                shown[name] = REDACTED if is_secret(name) else value
                continue
            plain, size = _plain(value, name, self.secrets())
            if size > INLINE_LIMIT:
                plain = self._offload(plain, cut=size > VALUE_LIMIT)
                apart[name] = plain["blob"]
            shown[name] = plain
        return shown, apart

    def _offload(self, value: Any, *, cut: bool) -> dict[str, Any]:
        body = pack(value)
        reference = bytes_digest(body)
        with self._lock:
            self._blobs.append((reference, body))
        kept = {"blob": reference, "bytes": len(body)}
        return {**kept, "cut": True} if cut else kept

    def take(self) -> list[Chunk]:
        """Hand over what was recorded since the last call: one chunk, or none."""
        with self._lock:
            if not self._events:
                # A large value that was put aside waits for its event.
                return []
            events, self._events = self._events, []
            blobs, self._blobs = self._blobs, []
            dropped, self.dropped = self.dropped, 0
        base = events[0][2]
        for event in events:
            event[2] -= base
        data = {"v": _FORMAT, "at": base, "events": events, **self.about}
        if dropped:
            data["dropped"] = dropped
        chunk = evolve(
            _CHUNK,
            trace_id=self.trace_id,
            nonce=self.nonce,
            first=events[0][0],
            count=len(events),
            body=pack(data),
            blobs=tuple(blobs),
            recorded_at=base,
        )
        return [chunk]

    def put_back(self, chunk: Chunk) -> None:
        """Take a chunk back that could not be written, to be tried again."""
        data = unpack(chunk.body)
        with self._lock:
            self._events[:0] = ([e[0], e[1], e[2] + data["at"], *e[3:]] for e in data["events"])
            self._blobs[:0] = chunk.blobs
            self.dropped += data.get("dropped", 0)


def _plain(value: Any, name: str, known: Collection[str]) -> tuple[Any, int]:
    """Reduce a value to redacted JSON data that nobody else holds, and say how long it is as JSON.

    It is written later: what the task does to its objects in the meantime must not show.
    """
    try:
        if isinstance(value, str) and not is_secret(name):
            return kept_text(value, VALUE_LIMIT, known), len(value)
        value = redact(value, name, known)
        if isinstance(value, str):
            return value, len(value)
        text = json.dumps(value, default=lambda item: kept_text(item, VALUE_LIMIT, known))
        return json.loads(text) if len(text) <= VALUE_LIMIT else safe_text(text, VALUE_LIMIT), len(text)
    except SoftTimeLimitExceeded:
        raise  # it is meant for the body
    except Exception as error:  # whatever a user's object does
        text = f"<{type(value).__name__} that can't be shown: {type(error).__name__}>"
        return text, len(text)


def _raw(data: Mapping[str, Any]) -> list[list[Any]]:
    raw = []
    for event in data["events"]:
        sequence, name, offset, *rest = event
        padded = [*rest, *([0, "success", None, None][len(rest) :])]
        raw.append([sequence, name, data["at"] + offset, *padded])
    return raw


def events_of(chunk: Chunk) -> list[Event]:
    """Unpack a chunk's events."""
    data = unpack(chunk.body)
    events = []
    for sequence, name, at, flags, status, attributes, extra in _raw(data):
        events.append(
            Event(
                name=name,
                at=at,
                sequence=sequence,
                domain=bool(flags & 1),
                side_effect=bool(flags & 2),
                status=status,
                attributes=attributes or {},
                trace_id=chunk.trace_id,
                attempt=chunk.nonce,
                job_id=data.get("job", ""),
                worker_id=data.get("worker", ""),
                idempotency_key=data.get("key", ""),
                **{"fence": data.get("fence"), **(extra or {})},
            )
        )
    return events


def put_aside(value: Any) -> bool:
    """Is it a reference to a value that was too large for its event?"""
    if not isinstance(value, dict) or not {"blob", "bytes"} <= value.keys() <= {"blob", "bytes", "cut"}:
        return False
    return isinstance(value["bytes"], int)


def stripped(chunk: Chunk, job: Job) -> tuple[Chunk | None, set[str]]:
    """Take all that is said out of a chunk of a job's events: the events stay, with their names and times.

    Returns:
        What stays (None where the chunk is another job's), and the references to large values that it had.

    Raises:
        TriageRefused: nobody can tell what it says.
    """
    try:
        data = unpack(chunk.body)
        raw = _raw(data)
    except Exception as error:  # it is damaged, or of another version
        raise TriageRefused(f"events of its trace can't be read: chunk {chunk.chunk_id}") from error
    references = {reference for event in raw for reference in _references(*event[5:])}
    if data.get("job") != job.task_id:
        return None, references
    lean = []
    for sequence, name, at, flags, status, attributes, extra in raw:
        kept = {word: extra[word] for word in ("step", "fence") if word in extra} if extra else None
        said = {"erased": True} if attributes else None
        lean.append([sequence, name, at - data["at"], flags, status, said, kept or None])
    rest = {name: value for name, value in data.items() if name != "key"}
    return evolve(chunk, body=pack({**rest, "events": lean}), blobs=()), references


def summarised(chunks: Sequence[Chunk]) -> list[Chunk]:
    """Reduce all events of a trace to how many there were of which, in one event of its first chunk.

    Returns:
        The chunks that change; none where that was done before, or nobody can tell what they say.
    """
    ordered = sorted(chunks, key=lambda chunk: (chunk.recorded_at, chunk.nonce, chunk.first))
    try:
        data = [unpack(chunk.body) for chunk in ordered]
        raw = [event for one in data for event in _raw(one)]
    except Exception:  # it is damaged, or of another version
        return []
    if not raw or [event[1] for event in raw] == [SUMMARY]:
        return []
    counts: Counter[str] = Counter()
    for _, name, *_, attributes, _ in raw:
        counts.update(attributes["counts"] if name == SUMMARY else [name])
    told = {"events": counts.total(), "counts": dict(sorted(counts.items()))}
    first = min(event[2] for event in raw)
    events = [[[raw[0][0], SUMMARY, first - data[0]["at"], 0, "success", told]], *([[]] * (len(data) - 1))]
    pairs = zip(ordered, data, events, strict=True)
    return [evolve(chunk, body=pack({**one, "events": own}), blobs=()) for chunk, one, own in pairs]


def _references(attributes: Mapping[str, Any] | None, extra: Mapping[str, Any] | None) -> Iterable[str]:
    for value in (attributes or {}).values():
        if put_aside(value):
            yield str(value["blob"])
    for name in ("input_ref", "output_ref"):
        if extra and name in extra:
            yield str(extra[name])


class ChunkReader(Protocol):
    """The part of a store that a timeline needs."""

    def chunks(self, trace_id: str) -> Sequence[Chunk]:
        """Return the flushed events of a trace."""


def timeline(store: ChunkReader, trace_id: str) -> list[Event]:
    """Read a trace: the events of all attempts, in the order of their times; an attempt's own in their sequence."""
    events = [event for chunk in store.chunks(trace_id) for event in events_of(chunk)]
    return sorted(events, key=lambda event: (event.at, event.attempt, event.sequence))


def story(job: Job, events: Iterable[Event], attempts: Iterable[AttemptRecord] = ()) -> list[tuple[int, Event]]:
    """Tell what happened to a job: its events, and what only its records know, each with the number of its attempt.

    Attempts are numbered in the order in which they began. Number 0 is for what belongs to all of them, and for what a
    worker's parent tells.
    """
    known = _without_copies(events)
    if job.published_at and not any(event.name == "published" for event in known):
        known.append(Event(name="published", at=job.published_at, attempt=known[0].attempt if known else job.nonce))
    known += [event for attempt in attempts if attempt.note for event in _unsaid(attempt, known)]
    known += _never_sent(job) if not known else ()
    known.sort(key=lambda event: event.at)
    began = dict.fromkeys(event.attempt for event in known if event.name in ("received", "started"))
    numbers = {attempt: number for number, attempt in enumerate(began, 1)}
    # The message is published for all of its attempts; which of them told of it says nothing.
    return [(0 if event.name == "published" else numbers.get(event.attempt, 0), event) for event in known]


def title(event: Event) -> str:
    """Name an event, with the step that it is of."""
    return f"{event.step}: {event.name}" if event.step else event.name


def telling(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return those attributes that are part of the story."""
    return {name: value for name, value in attributes.items() if name not in _UNTOLD and value not in (None, "")}


def tone(event: Event) -> tuple[str, str]:
    """Return what kind of event it is, for its colour, and the sign that says the same."""
    if event.status == "fail":
        return "fail", "✗"
    if event.status == "skipped":
        return "skipped", "↷"
    if event.domain:
        return "domain", "◆"
    if event.side_effect:
        return "side_effect", "⇢"
    return ("good", "✓") if event.name == "succeeded" else ("plain", "·")


def failure_in(job: Job, told: Sequence[Event]) -> Event | None:
    """Return where a job failed that has not ended well: the last failure of its last attempt, else of any."""
    if job.status in _WELL:
        return None
    failures = [event for event in told if event.status == "fail" and event.job_id in ("", job.task_id)]
    own = [event for event in failures if event.attempt == job.nonce]
    return next(reversed(own or failures), None)


def _without_copies(events: Iterable[Event]) -> list[Event]:
    """Leave out what several copies of one message tell of its one publishing."""
    seen: set[Micros] = set()
    kept = []
    for event in events:
        if event.name == "published":
            if event.at in seen:
                continue
            seen.add(event.at)
        kept.append(event)
    return kept


def _never_sent(job: Job) -> Iterable[Event]:
    """Tell from its record why a job has no event: not even its message was published."""
    if job.status is Outcome.LOST and job.failure:
        told = json.loads(job.failure)
        name, said = told.get("reason") or str(job.status), {"message": told.get("message")}
        yield Event(name=name, at=job.started_at, status="fail", attributes=said)


def _unsaid(attempt: AttemptRecord, known: Iterable[Event]) -> Iterable[Event]:
    """Tell from its record what an attempt that died could not write itself."""
    if not any(event.attempt == attempt.nonce and event.name == "started" for event in known):
        yield Event(name="started", at=attempt.started_at, attempt=attempt.nonce)
    end = {"note": attempt.note, "worker": f"{attempt.worker}/{attempt.pid}"}
    yield Event(name=str(attempt.outcome), at=attempt.ended_at, attempt=attempt.nonce, status="fail", attributes=end)
