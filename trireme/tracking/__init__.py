"""Tracking: record what every step did, and bring those records into MLflow."""
