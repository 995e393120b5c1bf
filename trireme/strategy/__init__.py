"""Strategies that train a model on so many devices: memory, communication, and a choice."""
