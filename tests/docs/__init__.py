"""The documentation, followed to the letter."""
