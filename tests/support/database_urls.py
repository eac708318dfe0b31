"""Database addresses as Django writes them."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

ENGINES = {"postgresql": "postgresql", "mysql": "mysql", "sqlite": "sqlite3"}


def django_database(url: str) -> dict[str, object]:
    """Return the entry of `DATABASES` for a URL such as `postgresql://user@host:5432/name` or `sqlite:///file`.

    Raises:
        KeyError: no engine is known for the scheme.
    """
    parts = urlsplit(url)
    if parts.scheme == "mysql":
        # Lets PyMySQL be what Django takes for its driver.
        from tests.support import mariadb_server  # noqa: F401
    entry: dict[str, object] = {
        "ENGINE": f"django.db.backends.{ENGINES[parts.scheme]}",
        "NAME": unquote(parts.path[1:]),
    }
    if parts.hostname:
        entry |= {"HOST": parts.hostname, "PORT": parts.port or "", "USER": unquote(parts.username or "")}
        entry["PASSWORD"] = unquote(parts.password or "")
    if parts.scheme == "mysql":
        # Before 5.0 Django takes the one that has no room for all of Unicode.
        entry["OPTIONS"] = {"charset": "utf8mb4"}
    return entry
