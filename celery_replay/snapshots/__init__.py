"""What a task's declared state was: canonical records in blobs under their digests, and how two states differ."""
