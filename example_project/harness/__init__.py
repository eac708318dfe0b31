"""What the demo is made of: processes, faults, counting, the screen."""
