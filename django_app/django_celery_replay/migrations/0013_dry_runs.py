from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("django_celery_replay", "0012_operations")]

    operations = [
        migrations.AlterModelOptions(
            name="deadletter",
            options={
                "permissions": [
                    ("triage_deadletter", "Can assign, note, quarantine, edit and discard dead letters"),
                    ("replay_deadletter", "Can replay dead letters for real"),
                    ("dry_run_deadletter", "Can let a worker dry-run and fork dead letters"),
                ]
            },
        ),
    ]
