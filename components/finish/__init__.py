"""The last step of every pipeline: the run's true end, nothing left running, and word of it."""
