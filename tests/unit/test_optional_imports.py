"""What is optional may be missing. kombu imports Django where it is installed, so the import itself is blocked here."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPTIONAL = ("django", "redis", "rich", "opentelemetry", "psycopg", "httpx", "requests", "time_machine", "zstandard")

BLOCKER = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {(*OPTIONAL, "django_celery_replay", "pytest")!r}:
            raise ImportError(f"blocked: {{name}}")

sys.meta_path.insert(0, Blocker())
"""


def run(script, *, block=True):
    code = (BLOCKER if block else "") + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env={**{k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_blocker_blocks():
    with pytest.raises(AssertionError, match="blocked: django"):
        run("import django")


def test_every_module_of_the_core_is_imported_without_the_optional_packages():
    out = run(
        """
        import importlib, pkgutil
        import celery_replay
        adapters = ("stores.redis", "instrumentation.otel", "pytest_plugin", "contrib")
        for module in pkgutil.walk_packages(celery_replay.__path__, "celery_replay."):
            if not any(adapter in module.name for adapter in adapters):
                importlib.import_module(module.name)
        print("imported")
        """
    )

    assert out == "imported\n"


def test_jobs_run_over_the_memory_store_without_the_optional_packages():
    out = run(
        """
        from celery import Celery
        from celery_replay import record, step
        from celery_replay.runtime import runtime_of
        from celery_replay.trace import timeline

        app = Celery("bare", task_cls="celery_replay:ReplayTask", broker="memory://", backend="cache+memory://")
        app.conf.update(replay_store="memory://", replay_eager="record", task_always_eager=True)

        @step(side_effect=True)
        def charge(amount):
            return amount

        @app.task(bind=True, idempotency_key="pay:{order_id}", max_retries=1)
        def pay(self, order_id):
            charge(5)
            if not self.request.retries:
                raise self.retry(countdown=0)
            record("paid", amount=5)
            return order_id

        assert pay.delay(5).get() == 5
        store = runtime_of(app).store
        (job,) = store.find_jobs(key="pay:5")
        print(job.status, [event.name for event in timeline(store, job.trace_id) if event.domain])
        """
    )

    assert out == "succeeded ['paid']\n"


def test_the_django_app_works_without_the_package_that_its_result_backend_extends():
    out = run(
        """
        import importlib, pkgutil, sys

        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == "django_celery_results":
                    raise ImportError(f"blocked: {name}")

        sys.meta_path.insert(0, Blocker())
        sys.path.insert(0, "django_app")
        import django
        from django.conf import settings
        settings.configure(
            INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_celery_replay"],
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        )
        django.setup()
        from celery import Celery
        from django.core.checks import run_checks
        import django_celery_replay
        for module in pkgutil.iter_modules(django_celery_replay.__path__, "django_celery_replay."):
            if not module.name.endswith((".results", ".admin")):
                importlib.import_module(module.name)
        app = Celery("bare", task_cls="django_celery_replay:ReplayTask", backend="cache+memory://")
        print([message.id for message in run_checks()])
        try:
            import django_celery_replay.results
        except ImportError as error:
            print(error)
        """,
        block=False,
    )

    assert out == "[]\nblocked: django_celery_results\n"


def test_the_command_line_works_without_the_optional_packages():
    out = run(
        """
        from click.testing import CliRunner
        from celery_replay.cli import replay
        print(CliRunner().invoke(replay, ["--help"]).exit_code)
        """
    )

    assert out == "0\n"


def test_importing_the_core_opens_nothing():
    out = run(
        """
        import socket, threading

        def refuse(*_, **__):
            raise AssertionError("opened")

        socket.socket.connect = refuse
        import celery_replay
        from celery import Celery
        app = Celery("lazy", task_cls="celery_replay:ReplayTask", broker="amqp://nowhere.invalid")

        @app.task(idempotency_key="pay:{order_id}")
        def pay(order_id): ...

        app.finalize()
        print(threading.active_count())
        """
    )

    assert out == "1\n"


def test_without_a_store_the_error_says_how_to_get_one():
    out = run(
        """
        from celery import Celery
        from celery_replay import ConfigurationError
        from celery_replay.runtime import runtime_of

        app = Celery("none", task_cls="celery_replay:ReplayTask")
        try:
            runtime_of(app).store
        except ConfigurationError as error:
            print(error)
        """
    )

    assert "set replay_store" in out
    assert "[configuration]" in out
