"""This machine as the place where pipelines run."""
