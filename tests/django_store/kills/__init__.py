"""Jobs that are killed at any moment: `python -m tests.django_store.kills`."""
