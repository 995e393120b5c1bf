"""What a run costs, by a table of prices."""
