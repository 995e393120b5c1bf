"""``trireme job convert``: a job of the training operator as a TrainJob."""

from pathlib import Path
from typing import Annotated, Any

import typer

from trireme.cli.cluster import Context, Namespace, connect


def convert(
    job: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME", help="A file with manifests, or a job of the cluster by its name."
        ),
    ],
    gang: Annotated[
        str,
        typer.Option(
            help="The cluster's gang scheduler, coscheduling or volcano, if it needs one."
        ),
    ] = "",
    namespace: Namespace = "",
    context: Context = "",
) -> None:
    """Show a PyTorchJob, TFJob, MPIJob, XGBoostJob or JAXJob as a TrainJob with its runtime."""
    from trireme.errors import InputError
    from trireme.manifests import to_yaml
    from trireme.manifests.converting import KINDS, convert
    from trireme.runner.cluster import jobs

    file = Path(job)
    if file.is_file() or file.suffix in (".yaml", ".yml"):
        documents = _read(file)
        if not any(document.get("kind") in KINDS for document in documents):
            raise InputError(f"{file}: has no {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    else:
        documents = [jobs.find(connect(namespace, context), job)]
    for number, document in enumerate(documents):
        if number:
            typer.echo("---")
        if document.get("kind") not in KINDS and len(documents) > 1:
            typer.echo(to_yaml(document), nl=False)  # such as a claim that the job uses
            continue
        converted = convert(document, gang)
        for remark in converted.remarks:
            typer.echo(f"# {remark}")
        typer.echo(to_yaml(converted.manifest), nl=False)


def _read(file: Path) -> list[dict[str, Any]]:
    from trireme.errors import InputError
    from trireme.text import yaml_text

    documents = yaml_text.documents(yaml_text.text_of(file, str(file)), str(file))
    for document in documents:
        if not isinstance(document, dict):
            raise InputError(f"{file}: must hold manifests, not {document!r}")
    return documents
