"""Where a compiled pipeline runs."""
