"""One small Celery app per variant; each has a task `benchmarks.job` that takes a number."""
