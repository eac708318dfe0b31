"""Where the life cycle is kept."""
