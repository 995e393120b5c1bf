"""Schedules of pipelines, whatever runs them."""
