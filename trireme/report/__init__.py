"""A picture of a run: one page of what it has recorded, also while it is under way."""
