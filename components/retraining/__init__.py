"""Retraining: whether there is anything to train again, and what to start from."""
