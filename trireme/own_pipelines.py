"""Names of the pipelines that come with Trireme."""

PIPELINES = {
    "pytorch-training": "Train with PyTorch on one or many processes",
    "tensorflow-training": "Train with TensorFlow, by AllReduce or with parameter servers",
    "llm-finetuning": "Fine-tune a language model, from a base model and texts to an endpoint",
    "sweep": "Train many models with different parameters, and keep the best",
    "retraining": "Train again if code, data or parameters have changed, and keep the better model",
}
"""Trireme's own, with a line on each; ``pipelines/NAME.py`` holds it, dashes as underscores."""
