"""Runs on plain Argo that have begun, whatever they are of."""

from functools import cache

from trireme.pipeline import catalog
from trireme.targets.argo import compiling, workflows


@cache
def made(name="pytorch-training", account="trireme"):
    """Returns a pipeline as the command line compiles it; it takes a second."""
    return compiling.compiled(catalog.load(name), account)


def begun(cluster, name="pytorch-training"):
    """Starts a run of a pipeline; returns its name."""
    pipeline = catalog.load(name)
    run = workflows.start(cluster, pipeline, made(name), {}, pipeline.name_of_a_run())
    return run.name
