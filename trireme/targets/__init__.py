"""Places where a compiled pipeline runs."""
