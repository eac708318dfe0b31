from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_celery_replay", "0008_requeues")]

    operations = [
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["assignee", "last_failed"], name="replay_letter_assignee"),
        ),
        migrations.RemoveIndex(model_name="historyentry", name="replay_history_group"),
        migrations.AddIndex(
            model_name="historyentry",
            index=models.Index(fields=["group_id", "submission", "at"], name="replay_history_notes"),
        ),
    ]
