"""What the apps of these tests share: a Django project and settings whose waits are short.

The database comes from REPLAY_DJANGO_DATABASE_URL, the broker and the result backend from Celery's own variables;
REPLAY_TEST_SETTINGS has more Celery settings, as JSON.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import Any

import django
from celery import Celery

VISIBILITY_TIMEOUT_S = 3
QUICK_REDIS = {
    "visibility_timeout": VISIBILITY_TIMEOUT_S,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
    # A worker that is killed while it looks for old messages keeps all others from looking, by default for 300 s.
    "unacked_mutex_expire": 2,
}
LEASE_TTL_S = 2
CANVAS_TTL_S = 3
EFFECTS_TABLE = "tests_effects"
"""A business table, with effects by reference."""


def make_app(name: str, **settings: Any) -> Celery:
    """Make a Celery app of the tests' Django project."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.worker_settings")
    django.setup()
    app = Celery(name, task_cls="django_celery_replay:ReplayTask")
    app.conf.update(
        broker_connection_retry_on_startup=True,
        broker_transport_options=QUICK_REDIS if os.environ.get("CELERY_BROKER_URL", "").startswith("redis") else {},
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        replay_lease_ttl=LEASE_TTL_S,
        replay_canvas_ttl=CANVAS_TTL_S,
        replay_flush_interval=0.3,
        replay_redelivery_deadline=3,
        replay_resend_deadline=5,
        replay_store_retry_delay=1,
        **settings,
    )
    app.conf.update(json.loads(os.environ.get("REPLAY_TEST_SETTINGS", "{}")))
    return app


def post(what: str, reference: str) -> None:
    """Have an effect at the counting server that REPLAY_TEST_TARGET names."""
    request = urllib.request.Request(_url(what, reference), method="POST")
    with urllib.request.urlopen(request, timeout=30):
        pass


def exists(what: str, reference: str) -> bool:
    """Ask the counting server whether an effect is there."""
    try:
        with urllib.request.urlopen(_url(what, reference), timeout=30):
            return True
    except urllib.error.HTTPError:
        return False


def _url(what: str, reference: str) -> str:
    return f"{os.environ['REPLAY_TEST_TARGET']}/{what}?reference={reference}"
