"""Pipelines in kfp's compiled format, which every cluster's target starts from."""
