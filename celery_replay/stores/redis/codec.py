"""How records become the values of keys: JSON of what differs from a record's defaults, then its bytes, compressed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import compress
from operator import is_not, itemgetter
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from ...exceptions import SchemaMismatch
from ...records import Chunk, Group, HistoryEntry, Holding, Lease, Letter, Operation, Placed, Row, StepRecord
from ...serialization import plain_json
from ...states import Word

R = TypeVar("R")
W = TypeVar("W", bound=Word)
_WORTH_IT = 200
"""Bytes from which on a value is compressed."""
_LARGE = 1 << 16
_LEVEL = 3
"""Level 6 takes a third more time, and saves one byte in twenty."""
_WINDOW_BITS = 12
"""As `serialization.pack` has it: a large window takes longer to set up than a small text to compress."""

# What the values of finished jobs have in common, the most frequent at the end. Part of the format: never changed, only
# added under another mark.
_DICTIONARY = (
    b'"retry_scheduled","note":"","late_acks_loss","celery_replay.refused","traceback","reason":"","redelivered",'
    b'"status":"fail","step":"","error":"","message":"","b":"","c":"","g":1,"f":"{"type": "'
    b'{"h":"b1:","e":17,"a":1,"k":"late","d":3660000000,"t":"{\\"","w":"celery@","i":1,"p":17,"s":17,"~":"c","n":"01",'
    b'"C":[[0,1,5,17]],"+":[3]}\nj{"v":1,"at":17,"events":[[1,"published",0,0,"success"],[2,"received",1,0,"success"],'
    b'[3,"started",2,0,"success",{"celery":"5.7.0","kombu":"5.7.0","python":"3.13.1","code":"","acks_late":true,'
    b'"reject_on_worker_lost":true,"max_retries":3,"argument_types":{"order_id":"int","self":"str"}}],'
    b'[4,"checked",3,1,"success",{"amount":1,"status":"paid"}],'
    b'[5,"succeeded",4,0,"success",{"duration_s":0.0}]],"job":"","worker":"celery@","key":"","fence":17}'
)


def pack(
    data: Mapping[str, Any], parts: Sequence[bytes] = (), context: bytes = b"", *, compressed: bool = True
) -> bytes:
    """Pack JSON data and some bytes.

    Args:
        context: what is kept beside the value, and is likely to be in it, too; needed to unpack it.
        compressed: False for what is soon written anew.
    """
    sizes = [len(part) for part in parts]
    text = plain_json({**data, "+": sizes} if parts else data)
    whole = b"\n".join((text, b"".join(parts))) if parts else text
    if not compressed or not _WORTH_IT <= len(whole) <= _LARGE:
        # A message that is as large as that was compressed by whoever made it.
        return b"j" + whole
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -_WINDOW_BITS, 5, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY + context)
    return b"d" + packer.compress(whole) + packer.flush()


def unpack(value: bytes, context: bytes = b"") -> tuple[dict[str, Any], list[bytes]]:
    """Return the data and the bytes.

    Raises:
        SchemaMismatch: a newer version packed it in another way.
    """
    mark, whole = value[:1], value[1:]
    if mark == b"d":
        whole = zlib.decompressobj(-_WINDOW_BITS, _DICTIONARY + context).decompress(whole)
    elif mark != b"j":
        raise SchemaMismatch(f"a value has the mark {mark!r}, which this version does not know; upgrade this process")
    text, _, rest = whole.partition(b"\n")
    data: dict[str, Any] = json.loads(text)
    parts, start = [], 0
    for size in data.pop("+", ()):
        parts.append(rest[start : start + size])
        start += size
    return data, parts


class Codec(Generic[R]):
    """One kind of record.

    Args:
        record: the dataclass.
        names: what its fields are called in a value, for those whose name should be short.
        leave: fields that are kept elsewhere.
    """

    def __init__(self, record: type[R], names: Mapping[str, str] | None = None, leave: Sequence[str] = ()) -> None:
        hints = get_type_hints(record)
        self.record = record
        self._names = dict(names or {})
        kept = [field for field in fields(record) if field.name not in leave]  # type: ignore[arg-type]
        described = [(f.name, self._names.get(f.name, f.name), f.default) for f in kept]
        self._bytes = {f.name for f in kept if bytes in (hints[f.name], *get_args(hints[f.name]))}
        texts = [each for each in described if each[0] not in self._bytes]
        self._parts = [each for each in described if each[0] in self._bytes]
        self._values = itemgetter(*(name for name, _, _ in texts))
        self._shorts = [short for _, short, _ in texts]
        self._defaults = [default for _, _, default in texts]
        self._decode = {short: (name, _decoder(hints[name])) for name, short, _ in described}

    def plain(self, record: R) -> tuple[dict[str, Any], list[bytes]]:
        """Return a record's JSON data, and its bytes."""
        fields = vars(record)
        values = self._values(fields)
        # Defaults are None, words, small numbers and what is empty: of each there is one.
        data = dict(compress(zip(self._shorts, values, strict=True), map(is_not, values, self._defaults)))
        parts: list[bytes] = []
        for name, short, default in self._parts:
            value = fields[name]
            if value is not default:
                data[short] = len(parts) if value is not None else None
                parts += [] if value is None else [value]
        return data, parts

    def values(self, data: Mapping[str, Any], parts: Sequence[bytes]) -> dict[str, Any]:
        """Return a record's fields; those that this version does not know are left out.

        Raises:
            SchemaMismatch: there is a word that this version does not know.
        """
        found: dict[str, Any] = {}
        for short, value in data.items():
            if short not in self._decode:
                continue
            name, decode = self._decode[short]
            if name in self._bytes and value is not None:
                found[name] = parts[value]
            elif decode is None or value is None:
                found[name] = value
            else:
                found[name] = decode(value)
        return found

    def encode(self, record: R) -> bytes:
        """Pack a record."""
        return pack(*self.plain(record))

    def decode(self, value: bytes, **more: Any) -> R:
        """Unpack a record; `more` are fields that are kept elsewhere."""
        return self.record(**self.values(*unpack(value)), **more)


def _decoder(hint: Any) -> Callable[[Any], Any] | None:
    for kind in (hint, *get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, Word):
            return partial(word, kind)
    return None


def word(kind: type[W], text: str) -> W:
    """Return the word that a text is."""
    found = kind._value2member_map_.get(text)
    if found is None:
        raise SchemaMismatch(f"a record has the word {text!r}, which this version does not know; upgrade this process")
    return found  # type: ignore[return-value]


ROWS = Codec(Row)
GROUPS = Codec(Group, leave=("error_message", "first_seen", "filed", "unresolved"))
LEASES = Codec(Lease, leave=("resource",))
HOLDINGS = Codec(Holding, leave=("resource",))
OPERATIONS = Codec(Operation)
_LETTERS = Codec(Letter, leave=("submission",))
_STEPS = Codec(StepRecord, leave=("scope", "claimed_at"))
_HISTORY = Codec(HistoryEntry)
_STATES = {"claimed": b"c", "settled": b"s"}


def text_of(name: bytes) -> str:
    """Return a name as it was before Redis had it, whatever it is made of."""
    return name.decode("utf-8", "surrogatepass")


def escaped(text: str | None) -> str:
    """Return a text as a head has it, which scripts read: without tabs and line feeds."""
    if not text:
        return ""
    if "\\" in text or "\t" in text or "\n" in text:
        text = text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
    return text


def step_parts(step: StepRecord) -> tuple[bytes, bytes]:
    """Return what stands in a step's value before the time of its claim, and after it."""
    return _STATES[step.state.value], b" " + _STEPS.encode(step)


def step_value(step: StepRecord) -> bytes:
    """Pack a step: its state, so that a script can tell, and when it was claimed."""
    before, after = step_parts(step)
    return b"%s%d%s" % (before, step.claimed_at, after)


def step_of(scope: str, value: bytes) -> StepRecord:
    """Unpack a step."""
    head, _, rest = value.partition(b" ")
    return _STEPS.decode(rest, scope=scope, claimed_at=int(head[1:]))


def lease_of(resource: str, value: bytes) -> Lease:
    """Unpack a lease."""
    return LEASES.decode(value, resource=resource)


def placed_of(name: str, value: bytes) -> Placed:
    """Read what is known of an object elsewhere."""
    look_at, _, reference = value.partition(b" ")
    return Placed(name=name, reference=reference.decode("utf-8", "surrogatepass"), look_at=int(look_at))


def letter_value(letter: Letter) -> bytes:
    """Pack a letter: its state and group, so that a script can tell, then the rest."""
    head = f"{letter.state.value}\t{escaped(letter.group_id)}\n"
    return head.encode("utf-8", "surrogatepass") + _LETTERS.encode(letter)


def letter_of(submission: str, value: bytes) -> Letter:
    """Unpack a letter."""
    return _LETTERS.decode(value.partition(b"\n")[2], submission=submission)


def entry_value(entry: HistoryEntry) -> bytes:
    """Pack an entry of the history: its group and operation, so that a script can tell, then the rest."""
    head = f"{escaped(entry.group_id)}\t{escaped(entry.operation_id)}\n"
    return head.encode("utf-8", "surrogatepass") + _HISTORY.encode(entry)


def entry_of(value: bytes) -> HistoryEntry:
    """Unpack an entry of the history."""
    return _HISTORY.decode(value.partition(b"\n")[2])


def chunk_value(chunk: Chunk) -> bytes:
    """Pack events that are kept with their trace."""
    return b"%d %d %d\n" % (chunk.first, chunk.count, chunk.recorded_at) + chunk.body


def chunk_of(trace_id: str, name: str, value: bytes) -> Chunk:
    """Unpack events that are kept with their trace."""
    head, _, body = value.partition(b"\n")
    first, count, recorded_at = map(int, head.split())
    nonce = name[2:].rpartition(":")[0]
    return Chunk(trace_id=trace_id, nonce=nonce, first=first, count=count, body=body, recorded_at=recorded_at)
