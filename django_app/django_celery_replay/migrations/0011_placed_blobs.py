from django.db import migrations, models

import django_celery_replay.fields


class Migration(migrations.Migration):
    dependencies = [
        ("django_celery_replay", "0010_resource_leases"),
    ]

    operations = [
        migrations.CreateModel(
            name="PlacedBlob",
            fields=[
                ("name", django_celery_replay.fields.TokenField(max_length=255, primary_key=True, serialize=False)),
                ("reference", django_celery_replay.fields.TokenField(max_length=255)),
                ("look_at", django_celery_replay.fields.MicrosecondsField()),
            ],
            options={
                "indexes": [models.Index(fields=["look_at"], name="replay_placed_due")],
            },
        ),
        migrations.AddField(
            model_name="blob",
            name="placed",
            field=models.BooleanField(null=True),
        ),
        migrations.AddIndex(
            model_name="blob",
            index=models.Index(fields=["placed"], name="replay_blob_placed"),
        ),
    ]
