"""What the commands for Kubeflow Pipelines have in common: where it is, and who asks."""

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from components.errors import InputError

if TYPE_CHECKING:
    from pipelines.targets.kubeflow.connection import Connection

TARGETS = ("local", "kfp")

Target = Annotated[
    str, typer.Option(metavar="TARGET", help="local: this machine. kfp: Kubeflow Pipelines.")
]
Endpoint = Annotated[
    str,
    typer.Option(
        metavar="URL",
        envvar=["KF_PIPELINES_ENDPOINT", "KFP_ENDPOINT"],
        help="Of Kubeflow Pipelines; default: by way of the KUBECONFIG.",
    ),
]
TokenFile = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        envvar="KF_PIPELINES_SA_TOKEN_PATH",
        help="Holds a token for it; KFP_EXISTING_TOKEN may hold one itself.",
    ),
]
CaFile = Annotated[
    str,
    typer.Option(
        metavar="FILE", envvar="REQUESTS_CA_BUNDLE", help="Certificates to check its own against."
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", envvar="KFP_NAMESPACE", help="Yours, where it has several users."
    ),
]
Context = Annotated[
    str, typer.Option("--context", help="A context of the KUBECONFIG; default: its current.")
]


@dataclass(frozen=True)
class Place:
    """What a person has said about where Kubeflow Pipelines is; each field is an option."""

    endpoint: str
    token_file: str
    ca_file: str
    namespace: str
    context: str

    def connect(self, *, stays: bool = False) -> "Connection":
        """Connects, for a command that asks something, or that stays until a run ends."""
        from pipelines.targets.kubeflow.client import Server
        from pipelines.targets.kubeflow.connection import PATIENCE, Connection

        connection = Connection(
            Server(
                endpoint=self.endpoint,
                namespace=self.namespace,
                token=os.environ.get("KFP_EXISTING_TOKEN", ""),
                token_file=self.token_file,
                ca_file=self.ca_file,
                context=self.context,
            ),
            on_wait=_say,
        )
        if stays:
            connection.patience = PATIENCE  # it has answered; from now on it may be away
        return connection


def check_target(target: str) -> None:
    """Refuses a target that there is not.

    Raises:
        InputError: One sentence that says so.
    """
    if target not in TARGETS:
        raise InputError(f"--target {target!r}: must be one of {', '.join(TARGETS)}")


def refuse_unless_kfp(context: typer.Context, target: str, names: tuple[str, ...]) -> None:
    """Refuses options of the command line that would change nothing on this machine.

    Args:
        context: The command's.
        target: Where it works.
        names: The options' names, as the function has them.

    Raises:
        InputError: One of them is given.
    """
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        is_given = source is not None and source.name == "COMMANDLINE"
        if target != "kfp" and option.name in names and is_given:
            raise InputError(f"{option.opts[0]} goes with --target kfp")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
