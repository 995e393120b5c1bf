"""Compile pipelines for Kubeflow Pipelines."""

from pathlib import Path

from kfp import compiler

from components.errors import InputError
from pipelines.catalog import Pipeline


def write(pipeline: Pipeline, directory: Path) -> Path:
    """Writes a pipeline's intermediate representation, the YAML that Kubeflow Pipelines takes.

    Args:
        pipeline: The pipeline.
        directory: Where the file goes, made if it is not there.

    Returns:
        The file, named after the pipeline.

    Raises:
        InputError: The file cannot be written.
    """
    file = directory / f"{pipeline.name}.yaml"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        compiler.Compiler().compile(pipeline.graph, str(file))
    except OSError as error:
        raise InputError(f"--output {directory}: cannot be written: {error}") from None
    return file
