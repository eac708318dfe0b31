"""The tables: one per record, with the record's own field names.

The store writes them with SQL of its own; the ORM is for reading. `Fence` and `Marker` stand apart: they live in every
database whose transactions guard an effect.
"""

from __future__ import annotations

from .guards import Fence, Marker
from .journal import (
    Blob,
    BlobUse,
    DeadLetter,
    HistoryEntry,
    LetterGroup,
    LetterTrend,
    PlacedBlob,
    TraceChunk,
    UncountedLetter,
)
from .leases import LeaseHolding, LeaseWaiter, ResourceLease
from .ledger import Attempt, Lead, ParkedJob, ProcessedJob, SchemaInfo, StepRecord
from .operations import OperationPortion, ReplayOperation

__all__ = [
    "Attempt",
    "Blob",
    "BlobUse",
    "DeadLetter",
    "Fence",
    "HistoryEntry",
    "Lead",
    "LeaseHolding",
    "LeaseWaiter",
    "LetterGroup",
    "LetterTrend",
    "Marker",
    "OperationPortion",
    "ParkedJob",
    "PlacedBlob",
    "ProcessedJob",
    "ReplayOperation",
    "ResourceLease",
    "SchemaInfo",
    "StepRecord",
    "TraceChunk",
    "UncountedLetter",
]
