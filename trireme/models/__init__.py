"""The result of a training, in MODEL_DIR, and how it becomes a model again."""
