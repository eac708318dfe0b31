"""Replays of recorded jobs, guarded: what would be sent, why something is left out, and the sending."""
