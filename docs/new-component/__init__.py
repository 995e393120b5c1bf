"""The step NAME."""
