"""Compile pipelines for plain Argo."""

import tempfile
from pathlib import Path

from hera.workflows import WorkflowTemplate

from trireme.components.errors import InputError
from trireme.pipelines.catalog import Pipeline
from trireme.pipelines.compiling import ir
from trireme.pipelines.targets.argo.reading import read
from trireme.pipelines.targets.argo.rendering import workflow_template


def compiled(pipeline: Pipeline, claims: dict[str, Path], service_account: str) -> WorkflowTemplate:
    """Returns a pipeline as a WorkflowTemplate.

    Args:
        pipeline: The pipeline.
        claims: What all of its pods have mounted, as ``compiling.ir.mounts`` returns it.
        service_account: The service account of its pods.
    """
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        compiled = read(ir.write(pipeline, Path(directory), claims))
        return workflow_template(compiled, service_account, is_ours=True)


def write(
    pipeline: Pipeline, directory: Path, claims: dict[str, Path], service_account: str
) -> Path:
    """Writes a pipeline's WorkflowTemplate.

    Args:
        pipeline: The pipeline.
        directory: Where the file goes, made if it is not there.
        claims: What all of its pods have mounted.
        service_account: The service account of its pods.

    Returns:
        The file, named after the pipeline.

    Raises:
        InputError: The file cannot be written.
    """
    file = directory / f"{pipeline.name}.yaml"
    text = compiled(pipeline, claims, service_account).to_yaml()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as error:
        raise InputError(f"--output {directory}: cannot be written: {error}") from None
    return file
