"""The core in one process: real workers in threads, a broker in memory, the memory store."""
