"""Close a run: its state, what has come of it, and what is told to a webhook."""
