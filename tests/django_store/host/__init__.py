"""A project that has our app among its own: an app with users that are keyed by UUID, and a program that tries it."""
