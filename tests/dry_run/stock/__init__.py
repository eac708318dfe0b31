"""A Django app whose models and SQL are PostgreSQL's own."""
