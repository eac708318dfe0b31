from django.db import models


class Customer(models.Model):
    email = models.CharField(max_length=100)
    points = models.IntegerField(default=0)

    def __str__(self):
        return self.email


class Order(models.Model):
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE)
    status = models.CharField(max_length=20, default="paid")
    address = models.CharField(max_length=100, default="1 High Street")

    def __str__(self):
        return f"order {self.pk}"
