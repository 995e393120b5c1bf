"""Files that are whole, locked, kept, and where they are."""
