"""Real workers on real brokers, killed for real; judged by effects that are counted outside of them."""
