"""The rules of the life cycle as pure functions, line by line."""
