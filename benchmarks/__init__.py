"""What celery-replay costs, measured against plain Celery and against what users would pick instead."""
