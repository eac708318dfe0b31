"""The package as it is handed out."""
