"""Connecting without a word to the project's receivers of Django's signals."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper


class Unannounced(BaseDatabaseWrapper):
    """Makes a backend's wrapper one that connects quietly."""

    connection: Any

    def holds(self, table: str) -> bool:
        """May rows be written to this table?"""
        return True

    def connect(self) -> None:
        """Connect, and tell no receiver: a project's own would set up the database that it knows, or ask another."""
        self.check_settings()
        self.in_atomic_block = False
        self.savepoint_ids = []
        self.atomic_blocks = []
        self.needs_rollback = False
        self.health_check_enabled = False
        self.health_check_done = True
        self.close_at = None
        self.closed_in_transaction = False
        self.errors_occurred = False
        self.connection = self.get_new_connection(self.get_connection_params())
        self.set_autocommit(self.settings_dict["AUTOCOMMIT"])
        self.init_connection_state()
        self.run_on_commit = []

    def ensure_connection(self) -> None:
        """Connect where that is still to be done: also where tests have forbidden it to Django's databases."""
        if self.connection is None:
            with self.wrap_database_errors:
                self.connect()
