"""An app with a few tables, for dry runs in a Django project."""
