"""The view of runs on a terminal."""
