"""Export: write the trained model in forms that run without its training code."""
