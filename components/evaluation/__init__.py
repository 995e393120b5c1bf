"""Evaluation: measure a trained model on data it never saw."""
