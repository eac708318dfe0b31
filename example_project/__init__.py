"""A small shop on Django and Celery, and a demo that kills its workers."""
