from django.db import migrations, models

import django_celery_replay.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_celery_replay", "0011_placed_blobs"),
    ]

    operations = [
        migrations.CreateModel(
            name="OperationPortion",
            fields=[
                (
                    "portion_id",
                    django_celery_replay.fields.TokenField(max_length=96, primary_key=True, serialize=False),
                ),
                ("operation_id", django_celery_replay.fields.TokenField(max_length=64)),
                ("number", models.IntegerField()),
                ("body", models.BinaryField()),
            ],
            options={
                "indexes": [models.Index(fields=["operation_id"], name="replay_portion_operation")],
            },
        ),
        migrations.CreateModel(
            name="ReplayOperation",
            fields=[
                (
                    "operation_id",
                    django_celery_replay.fields.TokenField(max_length=64, primary_key=True, serialize=False),
                ),
                ("actor", django_celery_replay.fields.TokenField(max_length=150)),
                ("reason", models.TextField()),
                ("state", django_celery_replay.fields.TokenField(max_length=32)),
                ("said", models.TextField()),
                ("options", models.TextField()),
                ("began_at", django_celery_replay.fields.MicrosecondsField()),
                ("changed_at", django_celery_replay.fields.MicrosecondsField()),
                ("total", models.IntegerField()),
                ("position", models.IntegerField()),
                ("sent", models.IntegerField()),
                ("left_out", models.IntegerField()),
                ("resolved", models.IntegerField()),
                ("failed", models.IntegerField()),
                ("gone", models.IntegerField()),
                ("tried", models.IntegerField()),
                ("bad", models.IntegerField()),
                ("proven", models.BooleanField()),
                ("recent", models.TextField()),
                ("pending", models.TextField()),
                ("due_at", django_celery_replay.fields.MicrosecondsField()),
                ("keep_us", models.BigIntegerField()),
                ("revision", models.IntegerField()),
                ("active", models.BooleanField()),
                ("keep_until", django_celery_replay.fields.MicrosecondsField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["began_at"], name="replay_operation_newest"),
                    models.Index(fields=["active", "began_at"], name="replay_operation_active"),
                    models.Index(fields=["keep_until"], name="replay_operation_keep"),
                ],
            },
        ),
    ]
