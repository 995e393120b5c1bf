"""Kubeflow Pipelines as the place where pipelines run."""
