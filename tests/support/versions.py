"""Marks for what not every supported version can do; `docs/reference/versions.md` tells users."""

from __future__ import annotations

from importlib.metadata import version

import pytest


def needs(package: str, wanted: str, why: str) -> pytest.MarkDecorator:
    """Skip a test on older versions of a package, and say why.

    Args:
        wanted: the first version that will do, as "5.7".
    """
    return pytest.mark.skipif(_release(version(package)) < _release(wanted), reason=f"needs {package} {wanted}: {why}")


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


quick_redelivery = needs("kombu", "5.7", "on Redis older ones look for messages of dead workers every 100 s only")
