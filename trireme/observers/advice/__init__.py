"""Advice: what a training spends its time with, what it uses of what it asked for, what follows."""

TAG = "advice"
"""The tag of a training's run with what to change in its job, a line for each."""
