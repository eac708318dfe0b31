"""The host's users."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models


class Person(AbstractUser):
    """A user whose key is no number."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)

    class Meta:
        app_label = "host"
