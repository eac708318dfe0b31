"""A shop that has used Celery for years: what the pages call your project."""

from .celery import app as celery_app

__all__ = ("celery_app",)
