"""What every store must do: one suite, and a simulated world around the real store."""
