"""Checkout: bring a git repository at an exact commit into the run workspace."""
