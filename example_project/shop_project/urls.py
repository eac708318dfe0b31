"""The pages of the shop."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from example_project.shop import views

urlpatterns = [
    path("", views.order_list, name="orders"),
    path("orders/<int:order_id>/", views.order_page, name="order"),
    path("orders/<int:order_id>/checkout/", views.checkout, name="checkout"),
    path("admin/", admin.site.urls),
]
