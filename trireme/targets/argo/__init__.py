"""Argo Workflows, without Kubeflow, as the place where pipelines run."""
