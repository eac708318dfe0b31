from django.db import migrations, models

import django_celery_replay.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_celery_replay", "0009_letters_of_somebody"),
    ]

    operations = [
        migrations.AddField(
            model_name="parkedjob",
            name="contended_since",
            field=django_celery_replay.fields.MicrosecondsField(null=True),
        ),
        migrations.CreateModel(
            name="LeaseHolding",
            fields=[
                (
                    "holding_id",
                    django_celery_replay.fields.TokenField(max_length=64, primary_key=True, serialize=False),
                ),
                ("resource", django_celery_replay.fields.TokenField(max_length=255)),
                ("grant", models.BigIntegerField()),
                ("fence", models.BigIntegerField()),
                ("nonce", django_celery_replay.fields.TokenField(max_length=255)),
                ("submission", django_celery_replay.fields.TokenField(max_length=255)),
                ("operation", django_celery_replay.fields.TokenField(max_length=255)),
                ("trace_id", django_celery_replay.fields.TokenField(max_length=255)),
                ("worker", django_celery_replay.fields.TokenField(max_length=255)),
                ("pid", models.BigIntegerField()),
                ("acquired_at", django_celery_replay.fields.MicrosecondsField()),
                ("ended_at", django_celery_replay.fields.MicrosecondsField()),
                ("end", django_celery_replay.fields.TokenField(max_length=32)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["resource", "grant"], name="replay_holding_resource"),
                    models.Index(fields=["operation", "ended_at"], name="replay_holding_task"),
                    models.Index(fields=["submission"], name="replay_holding_job"),
                ],
            },
        ),
        migrations.CreateModel(
            name="LeaseWaiter",
            fields=[
                ("waiter_id", django_celery_replay.fields.TokenField(max_length=32, primary_key=True, serialize=False)),
                ("resource", django_celery_replay.fields.TokenField(max_length=255)),
                ("submission", django_celery_replay.fields.TokenField(max_length=255)),
                ("since", django_celery_replay.fields.MicrosecondsField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["resource", "since", "submission"], name="replay_waiter_line"),
                    models.Index(fields=["submission"], name="replay_waiter_job"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ResourceLease",
            fields=[
                ("resource", django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False)),
                ("fence", models.BigIntegerField()),
                ("nonce", django_celery_replay.fields.TokenField(max_length=255)),
                ("submission", django_celery_replay.fields.TokenField(max_length=255)),
                ("operation", django_celery_replay.fields.TokenField(max_length=255)),
                ("trace_id", django_celery_replay.fields.TokenField(max_length=255)),
                ("worker", django_celery_replay.fields.TokenField(max_length=255)),
                ("pid", models.BigIntegerField()),
                ("acquired_at", django_celery_replay.fields.MicrosecondsField()),
                ("until", django_celery_replay.fields.MicrosecondsField(null=True)),
                ("grants", models.BigIntegerField()),
                ("waiters", models.BooleanField()),
                ("keep_until", django_celery_replay.fields.MicrosecondsField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["until"], name="replay_lease_until"),
                    models.Index(fields=["keep_until"], name="replay_lease_keep"),
                    models.Index(fields=["submission"], name="replay_lease_job"),
                ],
            },
        ),
    ]
