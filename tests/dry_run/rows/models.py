"""Customers and their orders; and code of a project that asks the outside on its way."""

from __future__ import annotations

import os
import urllib.request
from typing import Any

from django.db import models
from django.db.backends.signals import connection_created


def ask_outside(*_: object, **__: object) -> str:
    """Count at a server, where the test has told of one."""
    url = os.environ.get("ROWS_OUTSIDE")
    if url:
        urllib.request.urlopen(urllib.request.Request(url, b"", method="POST"), timeout=5).close()
    return "code"


class Customer(models.Model):
    """Somebody."""

    name = models.CharField(max_length=20)
    points = models.IntegerField(default=0)
    code = models.CharField(max_length=20, default=ask_outside)

    class Meta:
        app_label = "rows"

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """Something."""

    class Meta:
        app_label = "rows"

    def __str__(self) -> str:
        return str(self.pk)


class Router:
    """Asks for every write."""

    def db_for_write(self, model: Any, **hints: Any) -> None:
        """Leave it to the next router."""
        if os.environ.get("ROWS_ROUTER"):
            ask_outside()


connection_created.connect(lambda **_: ask_outside() if os.environ.get("ROWS_RECEIVER") else None, weak=False)
