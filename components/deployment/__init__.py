"""Deployment: a registered model answers requests."""
