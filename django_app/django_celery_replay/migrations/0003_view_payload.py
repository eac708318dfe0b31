from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("django_celery_replay", "0002_newest_jobs")]

    operations = [
        migrations.AlterModelOptions(
            name="processedjob",
            options={"permissions": [("view_payload", "Can view payloads and results")]},
        ),
    ]
