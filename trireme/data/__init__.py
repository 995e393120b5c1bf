"""Stage data where training reads it."""
