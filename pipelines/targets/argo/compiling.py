"""Compile pipelines for plain Argo."""

import tempfile
from pathlib import Path

from hera.workflows import WorkflowTemplate

from trireme.components.errors import InputError
from trireme.pipelines.compiling import ir
from trireme.pipelines.pipeline import Pipeline
from trireme.pipelines.targets.argo.reading import read
from trireme.pipelines.targets.argo.rendering import workflow_template


def compiled(pipeline: Pipeline, service_account: str) -> WorkflowTemplate:
    """Returns a pipeline as a WorkflowTemplate whose pods run as a service account."""
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        file = ir.write(pipeline, Path(directory))
        return workflow_template(read(file), service_account, is_ours=True)


def write(pipeline: Pipeline, directory: Path, service_account: str) -> Path:
    """Writes a pipeline's WorkflowTemplate; returns the file, named after the pipeline."""
    file = directory / f"{pipeline.name}.yaml"
    text = compiled(pipeline, service_account).to_yaml()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as error:
        raise InputError(f"--output {directory}: cannot be written: {error}") from None
    return file
