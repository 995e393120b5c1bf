"""Observers of a training: progress, hangs, usage, time line, preflight, advice."""
