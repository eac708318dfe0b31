"""A ledger in Redis with its journal in a Django database."""
