from django.db import migrations, models

import django_celery_replay.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_celery_replay", "0005_triage"),
    ]

    operations = [
        migrations.CreateModel(
            name="BlobUse",
            fields=[
                ("pair", django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False)),
                ("reference", django_celery_replay.fields.TokenField(max_length=255)),
                ("trace_id", django_celery_replay.fields.TokenField(max_length=255)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["reference"], name="replay_use_blob"),
                    models.Index(fields=["trace_id"], name="replay_use_trace"),
                ],
            },
        ),
    ]
