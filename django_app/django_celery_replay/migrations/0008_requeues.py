from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_celery_replay", "0007_letters_at_scale"),
    ]

    operations = [
        migrations.AddField(
            model_name="parkedjob",
            name="requeues",
            field=models.IntegerField(default=0),
        ),
    ]
