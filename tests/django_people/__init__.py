"""Users whose keys are UUIDs and whose names are addresses."""
