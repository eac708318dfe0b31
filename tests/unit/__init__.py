"""Each module of the core on its own, without a broker."""
