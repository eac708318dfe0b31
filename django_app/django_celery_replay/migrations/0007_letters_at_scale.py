from django.db import migrations, models

import django_celery_replay.fields


class Migration(migrations.Migration):
    dependencies = [("django_celery_replay", "0006_blob_uses")]

    operations = [
        migrations.CreateModel(
            name="UncountedLetter",
            fields=[
                ("newest", django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False)),
                ("group_id", django_celery_replay.fields.TokenField(max_length=64)),
                ("operation", django_celery_replay.fields.TokenField(max_length=255)),
                ("reason", django_celery_replay.fields.TokenField(max_length=32)),
                ("error_type", django_celery_replay.fields.TokenField(max_length=255)),
                ("frames", models.TextField()),
                ("error_message", models.TextField()),
                ("filed", models.BigIntegerField()),
                ("unresolved", models.BigIntegerField()),
                ("first_seen", django_celery_replay.fields.MicrosecondsField()),
                ("last_seen", django_celery_replay.fields.MicrosecondsField()),
            ],
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["reason", "last_failed"], name="replay_letter_reason"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["effect", "last_failed"], name="replay_letter_effect"),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["operation_id", "last_failed"], name="replay_letter_operation"),
        ),
    ]
