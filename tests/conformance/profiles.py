"""How hard Hypothesis tries: quick by default; `--hypothesis-profile=deep` for long runs.

The quick profile is the same wherever the same modules are loaded: Hypothesis draws on their constants.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

COMMON = settings(deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
DEFAULT = "replay"
FAST_STORES = ("memory",)

settings.register_profile(DEFAULT, COMMON, derandomize=True, max_examples=100, stateful_step_count=50)
settings.register_profile("deep", COMMON, max_examples=20_000, stateful_step_count=80)


def for_store(kind: str) -> settings:
    """Return the loaded profile, with fewer examples where every step asks a database."""
    loaded = settings()
    share = 1 if kind in FAST_STORES else 12
    return settings(loaded, max_examples=max(loaded.max_examples // share, 1))
