"""A producer that has never heard of celery-replay, and knows the names of tasks alone."""

from __future__ import annotations

import json
import os

from celery import Celery

app = Celery("legacy")
app.conf.update(json.loads(os.environ["REPLAY_TEST_SETTINGS"]))
