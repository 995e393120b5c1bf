"""The steps of a training pipeline: one folder per step, kfp-free work beside its kfp face."""
