"""A pipeline, whoever wrote it: found, read, checked, and kept by name."""
