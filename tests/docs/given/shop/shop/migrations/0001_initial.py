from django.db import migrations, models


def some_orders(apps, schema_editor):
    customer = apps.get_model("shop", "Customer").objects.create(email="ann@example.org")
    for number in range(1, 10):
        apps.get_model("shop", "Order").objects.create(pk=number, customer=customer)


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            "Customer",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("email", models.CharField(max_length=100)),
                ("points", models.IntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            "Order",
            [
                ("id", models.BigAutoField(primary_key=True)),
                ("customer", models.ForeignKey("shop.Customer", models.CASCADE)),
                ("status", models.CharField(max_length=20, default="paid")),
                ("address", models.CharField(max_length=100, default="1 High Street")),
            ],
        ),
        migrations.RunPython(some_orders, migrations.RunPython.noop),
    ]
