"""A comparison of runs: what differs between them, and what has come of that."""
