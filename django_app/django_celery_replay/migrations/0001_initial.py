from typing import Any

from django.db import migrations, models

import django_celery_replay.fields

SCHEMA_VERSION = 1


def write_version(apps: Any, schema_editor: Any) -> None:
    """Write the version of the records, on the migration's own connection."""
    table = apps.get_model("django_celery_replay", "SchemaInfo")._meta.db_table
    # Not by the schema editor: on MariaDB it takes whatever it executes for a change of the schema.
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} (id, version) VALUES (1, {SCHEMA_VERSION})")


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Blob",
            fields=[
                (
                    "reference",
                    django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False),
                ),
                ("body", models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name="Fence",
            fields=[
                ("name", django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False)),
                ("token", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Lead",
            fields=[
                ("name", django_celery_replay.fields.TokenField(max_length=64, primary_key=True, serialize=False)),
                ("nonce", django_celery_replay.fields.TokenField(max_length=255)),
                ("until", django_celery_replay.fields.MicrosecondsField()),
            ],
        ),
        migrations.CreateModel(
            name="SchemaInfo",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("version", models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("nonce", django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False)),
                ("submission", django_celery_replay.fields.TokenField(max_length=255)),
                ("trace_id", django_celery_replay.fields.TokenField(max_length=255)),
                ("operation", django_celery_replay.fields.TokenField(max_length=255)),
                ("generation", models.BigIntegerField()),
                ("outcome", django_celery_replay.fields.TokenField(max_length=32)),
                ("fence", models.BigIntegerField()),
                ("worker", django_celery_replay.fields.TokenField(max_length=255)),
                ("pid", models.BigIntegerField()),
                ("started_at", django_celery_replay.fields.MicrosecondsField()),
                ("ended_at", django_celery_replay.fields.MicrosecondsField()),
                ("note", models.TextField()),
            ],
            options={
                "indexes": [models.Index(fields=["submission", "started_at"], name="replay_attempt_job")],
            },
        ),
        migrations.CreateModel(
            name="DeadLetter",
            fields=[
                (
                    "submission",
                    django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False),
                ),
                ("operation", django_celery_replay.fields.TokenField(max_length=255)),
                ("task_id", django_celery_replay.fields.TokenField(max_length=255)),
                ("trace_id", django_celery_replay.fields.TokenField(max_length=255)),
                ("correlation_id", django_celery_replay.fields.TokenField(max_length=255)),
                ("key", django_celery_replay.fields.TokenField(max_length=500)),
                ("generation", models.BigIntegerField()),
                ("state", django_celery_replay.fields.TokenField(max_length=32)),
                ("reason", django_celery_replay.fields.TokenField(max_length=32)),
                ("category", django_celery_replay.fields.TokenField(max_length=32)),
                ("error_type", django_celery_replay.fields.TokenField(max_length=255)),
                ("error_message", models.TextField()),
                ("traceback", models.TextField()),
                ("attempts", models.IntegerField()),
                ("first_seen", django_celery_replay.fields.MicrosecondsField()),
                ("last_failed", django_celery_replay.fields.MicrosecondsField()),
                ("resolved_how", django_celery_replay.fields.TokenField(max_length=255)),
                ("worker", django_celery_replay.fields.TokenField(max_length=255)),
                ("code_version", django_celery_replay.fields.TokenField(max_length=255)),
                ("message", models.BinaryField()),
            ],
            options={
                "indexes": [models.Index(fields=["last_failed"], name="replay_letter_newest")],
            },
        ),
        migrations.CreateModel(
            name="Marker",
            fields=[
                ("identity", django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False)),
                ("nonce", django_celery_replay.fields.TokenField(max_length=255)),
                ("result", models.TextField(null=True)),
                ("marked_at", django_celery_replay.fields.MicrosecondsField()),
            ],
            options={
                "indexes": [models.Index(fields=["marked_at"], name="replay_marker_age")],
            },
        ),
        migrations.CreateModel(
            name="ParkedJob",
            fields=[
                (
                    "submission",
                    django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False),
                ),
                ("operation", django_celery_replay.fields.TokenField(max_length=255)),
                ("generation", models.BigIntegerField()),
                ("status", django_celery_replay.fields.TokenField(max_length=32)),
                ("revision", models.IntegerField()),
                ("subject", django_celery_replay.fields.TokenField(max_length=255)),
                ("reason", django_celery_replay.fields.TokenField(max_length=32)),
                ("wake_at", django_celery_replay.fields.MicrosecondsField()),
                ("parked_at", django_celery_replay.fields.MicrosecondsField()),
                ("message", models.BinaryField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["subject", "status", "parked_at"], name="replay_parked_behind"),
                    models.Index(fields=["wake_at", "parked_at"], name="replay_parked_due"),
                    models.Index(fields=["parked_at"], name="replay_parked_age"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ProcessedJob",
            fields=[
                (
                    "submission",
                    django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False),
                ),
                ("operation", django_celery_replay.fields.TokenField(max_length=255)),
                ("task_id", django_celery_replay.fields.TokenField(max_length=255)),
                ("trace_id", django_celery_replay.fields.TokenField(max_length=255)),
                ("correlation_id", django_celery_replay.fields.TokenField(max_length=255)),
                ("causation_id", django_celery_replay.fields.TokenField(max_length=255, null=True)),
                ("key", django_celery_replay.fields.TokenField(max_length=500)),
                ("claim", django_celery_replay.fields.TokenField(max_length=255, null=True, unique=True)),
                ("fingerprint", django_celery_replay.fields.TokenField(max_length=255, null=True)),
                ("generation", models.BigIntegerField()),
                ("status", django_celery_replay.fields.TokenField(max_length=32)),
                ("nonce", django_celery_replay.fields.TokenField(max_length=255)),
                ("fence", models.BigIntegerField()),
                ("lease_until", django_celery_replay.fields.MicrosecondsField(null=True)),
                ("reserved_until", django_celery_replay.fields.MicrosecondsField(null=True)),
                ("canvas_advanced", models.BooleanField()),
                ("canvas_until", django_celery_replay.fields.MicrosecondsField(null=True)),
                ("unsettled", models.BooleanField()),
                ("attempts", models.IntegerField()),
                ("strikes", models.IntegerField()),
                ("waiters", models.BooleanField()),
                ("letter", models.BooleanField()),
                ("ack", django_celery_replay.fields.TokenField(max_length=32)),
                ("redelivery_us", models.BigIntegerField()),
                ("message", models.BinaryField(null=True)),
                ("canvas_unknown", models.BooleanField()),
                ("result", models.TextField(null=True)),
                ("result_lost", models.BooleanField()),
                ("failure", models.TextField(null=True)),
                ("origin", django_celery_replay.fields.TokenField(max_length=255, null=True)),
                ("worker", django_celery_replay.fields.TokenField(max_length=255)),
                ("pid", models.BigIntegerField()),
                ("published_at", django_celery_replay.fields.MicrosecondsField(null=True)),
                ("started_at", django_celery_replay.fields.MicrosecondsField()),
                ("closed_at", django_celery_replay.fields.MicrosecondsField(null=True)),
                ("keep_until", django_celery_replay.fields.MicrosecondsField(null=True)),
                ("reap_at", django_celery_replay.fields.MicrosecondsField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["reap_at"], name="replay_job_reap"),
                    models.Index(fields=["letter", "keep_until"], name="replay_job_keep"),
                    models.Index(fields=["task_id"], name="replay_job_task"),
                    models.Index(fields=["key", "started_at"], name="replay_job_key"),
                    models.Index(fields=["trace_id"], name="replay_job_trace"),
                ],
            },
        ),
        migrations.CreateModel(
            name="StepRecord",
            fields=[
                ("step_id", django_celery_replay.fields.TokenField(max_length=32, primary_key=True, serialize=False)),
                ("scope", django_celery_replay.fields.TokenField(max_length=255)),
                ("key", models.TextField()),
                ("name", django_celery_replay.fields.TokenField(max_length=255)),
                ("state", django_celery_replay.fields.TokenField(max_length=32)),
                ("nonce", django_celery_replay.fields.TokenField(max_length=255)),
                ("output", models.TextField(null=True)),
                ("claimed_at", django_celery_replay.fields.MicrosecondsField()),
            ],
            options={
                "indexes": [models.Index(fields=["scope"], name="replay_step_scope")],
            },
        ),
        migrations.CreateModel(
            name="TraceChunk",
            fields=[
                ("chunk_id", django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False)),
                ("trace_id", django_celery_replay.fields.TokenField(max_length=255)),
                ("nonce", django_celery_replay.fields.TokenField(max_length=255)),
                ("first", models.BigIntegerField()),
                ("count", models.IntegerField()),
                ("body", models.BinaryField()),
                ("recorded_at", django_celery_replay.fields.MicrosecondsField()),
            ],
            options={
                "indexes": [models.Index(fields=["trace_id"], name="replay_chunk_trace")],
            },
        ),
        # The hint lets a router that keeps this app out of a database keep the version out too.
        migrations.RunPython(write_version, migrations.RunPython.noop, hints={"model_name": "schemainfo"}),
    ]
