"""Explanations: what is known of a run or a job, put together."""
