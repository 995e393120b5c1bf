"""Kubeflow Pipelines as the place where pipelines run."""

KUBEFLOW = "kubeflow"
"""The namespace of Kubeflow, where runs are if Kubeflow Pipelines has one user only."""
