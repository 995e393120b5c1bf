"""What looks at a training: progress, hangs, usage, time line, preflight, advice."""
