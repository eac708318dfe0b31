"""Real servers, workers and effects for the tests; nothing here is shipped."""
