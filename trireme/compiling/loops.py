"""The number of a loop's steps that run at once, which kfp fixes when a pipeline is compiled."""

from trireme.pipeline.pipeline import Pipeline

AT_ONCE = "at_once"
"""The input of a step which lists as many items as run at once, as a sweep's ``plan`` does."""


def limited(pipeline: Pipeline, parallelism: int | None) -> Pipeline:
    """Returns a pipeline whose loops run another number of steps at once; None: as it says."""
    if parallelism is None:
        return pipeline
    return pipeline.changed(lambda draft: draft.limit_loops(parallelism, AT_ONCE))
