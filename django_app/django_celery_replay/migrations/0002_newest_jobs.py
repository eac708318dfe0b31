from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_celery_replay", "0001_initial")]

    operations = [
        migrations.AddIndex(
            model_name="processedjob",
            index=models.Index(fields=["started_at"], name="replay_job_newest"),
        ),
    ]
