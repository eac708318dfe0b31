"""What it costs to look at, and to add to, a million dead letters."""
