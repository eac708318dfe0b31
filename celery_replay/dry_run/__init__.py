"""Dry runs: today's code on a recorded job, in a locked process, with what the outside answered then. Nothing real."""
