"""The cost of a run, by a table of prices."""
