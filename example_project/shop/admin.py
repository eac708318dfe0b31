"""The shop's own pages in the admin, beside those of celery-replay."""

from __future__ import annotations

from django.contrib import admin

from .models import Customer, DayReport, Order

admin.site.register([Customer, DayReport])


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Orders by number and status."""

    list_display = ["number", "customer", "status", "total_cents"]
    list_filter = ["status"]
    search_fields = ["number"]
