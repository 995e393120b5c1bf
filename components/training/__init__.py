"""Training: describe a distributed job, render it as a manifest, run it."""
