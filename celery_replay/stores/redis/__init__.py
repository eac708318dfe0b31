"""The store in Redis or Valkey: every decision of the rules is written by one script, which compares and writes."""

from .store import RedisStore

__all__ = ["RedisStore"]
