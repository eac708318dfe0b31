"""Attempts to leave the sandbox, each really made, and ordinary work, which goes on."""
