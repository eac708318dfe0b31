"""The world outside the store: broker, target of the side effect, result backend. Nothing here is ours to trust."""

from __future__ import annotations

from dataclasses import dataclass, field

from celery_replay.states import Word


@dataclass(frozen=True, slots=True)
class Message:
    """A delivery on its way."""

    submission: str
    generation: int
    tag: int
    """The broker's delivery tag, which Redis keeps when it restores a message."""

    def encoded(self) -> bytes:
        return f"{self.submission} {self.generation}".encode()


@dataclass
class Broker:
    """A queue without order: any message may come next. Acknowledgement is by tag, whoever holds it by now."""

    queue: list[Message] = field(default_factory=list)
    unacked: dict[int, Message] = field(default_factory=dict)
    tags: int = 0

    def publish(self, submission: str, generation: int) -> None:
        self.tags += 1
        self.queue.append(Message(submission, generation, self.tags))

    def publish_encoded(self, body: bytes) -> None:
        submission, generation = body.decode().split()
        self.publish(submission, int(generation))

    def hand_out(self, message: Message) -> None:
        self.queue.remove(message)
        self.unacked[message.tag] = message

    def ack(self, tag: int) -> None:
        self.unacked.pop(tag, None)

    def restore(self, tag: int) -> None:
        self.queue.append(self.unacked.pop(tag))


class Guard(Word):
    """How the target of the side effect protects itself."""

    PLAIN = "plain"
    FENCED = "fenced"
    ATOMIC = "atomic"
    """A unique marker is inserted in the effect's own transaction."""


@dataclass
class Target:
    """Where the side effect happens."""

    guard: Guard
    effects: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)

    def register(self, key: str, token: int) -> bool:
        """Register a fence token; refused for one that is older than the newest seen."""
        if self.guard is not Guard.FENCED:
            return True
        if token < self.tokens.get(key, 0):
            return False
        self.tokens[key] = token
        return True

    def apply(self, key: str, token: int) -> bool:
        """Apply the effect, unless the guard refuses the token."""
        if not self.register(key, token):
            return False
        if self.guard is Guard.ATOMIC and self.effects.get(key):
            return True
        self.effects[key] = self.effects.get(key, 0) + 1
        return True


@dataclass
class Backend:
    """Celery's result backend and what its tracer sent on."""

    counts_by_id: bool
    results: dict[str, str] = field(default_factory=dict)
    callbacks: dict[str, set[str]] = field(default_factory=dict)
    """Ids under which a submission's callback was published; one id runs once."""
    parts: dict[str, int] = field(default_factory=dict)
    """How often a submission's part of the chord was counted."""

    def publish_callback(self, submission: str, child: str) -> None:
        self.callbacks.setdefault(submission, set()).add(child)

    def count_part(self, submission: str) -> None:
        self.parts[submission] = 1 if self.counts_by_id else self.parts.get(submission, 0) + 1
