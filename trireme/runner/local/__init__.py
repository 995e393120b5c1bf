"""The embedded runner: a training job's manifest, run as processes on this machine."""
