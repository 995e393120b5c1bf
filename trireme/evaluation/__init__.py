"""Measure a model on held-out samples, and decide whether it is good enough."""
