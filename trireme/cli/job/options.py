"""Options that the commands of ``trireme job`` share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from trireme.cli.lazy import CLUSTER
from trireme.errors import InputError

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]", help="YAML file of the job; 'trireme job schema' prints its fields."
    ),
]
JobName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.")]
Local = Annotated[bool, typer.Option("--local", help="Use this machine, not a cluster.")]
Isolated = Annotated[
    bool,
    typer.Option("--isolated", help="With --local: give each replica its own network (as root)."),
]
Operator = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        rich_help_panel=CLUSTER,
        help="training-operator: a kind for each framework, such as PyTorchJob. trainer: "
        "TrainJob (Kubeflow Trainer). auto: the second where the cluster has Trainer. Default: "
        "the job's field operator, or auto.",
    ),
]


def refuse(options: Mapping[str, object], reason: str) -> None:
    """Refuses an option that is given and would change nothing."""
    for option, is_given in options.items():
        if is_given:
            raise InputError(f"{option} {reason}")


def refuse_other_places(
    local: bool, isolated: bool, operator: str, namespace: str, context: str
) -> None:
    """Refuses what is for the other place than that where a job is to run."""
    if local:
        refuse_a_place(namespace, context)
        refuse({"--operator": operator}, "is for clusters, not for --local")
    else:
        refuse({"--isolated": isolated}, "goes with --local")


def refuse_a_place(namespace: str, context: str) -> None:
    """Refuses what says where on a cluster a job is."""
    options = {"--namespace (or --workspace)": namespace, "--context (or --workspace)": context}
    refuse(options, "is for clusters, not for --local")
