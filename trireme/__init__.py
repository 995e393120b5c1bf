"""Distributed deep-learning training as pipelines: here, on Kubeflow, on Argo."""
