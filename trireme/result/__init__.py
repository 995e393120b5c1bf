"""What a training program leaves in MODEL_DIR, and how it becomes a model again."""
