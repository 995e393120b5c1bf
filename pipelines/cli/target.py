"""What the commands with ``--target`` have in common: where it is, and who asks."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.components.errors import InputError
from trireme.components.say import say

if TYPE_CHECKING:
    from trireme.pipelines.targets.kubeflow.connection import Connection

TARGETS = ("local", "kfp", "argo")
THERE = ("kfp", "argo")
"""Those that are a cluster."""

Target = Annotated[
    str,
    typer.Option(
        metavar="TARGET",
        help="local: this machine. kfp: Kubeflow Pipelines. argo: plain Argo Workflows.",
    ),
]
There = Annotated[
    str, typer.Option("--target", metavar="TARGET", help="kfp or argo: what they are made for.")
]
ServiceAccount = Annotated[
    str, typer.Option(metavar="NAME", help="With --target argo: of the steps' pods.")
]
SERVICE_ACCOUNT = "trireme"
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
KubeflowTimeZone = Annotated[
    str,
    typer.Option(
        metavar="ZONE",
        envvar="KFP_TIME_ZONE",
        help="CRON_SCHEDULE_TIMEZONE of Kubeflow's controller of schedules.",
    ),
]
EDITOR, RUNNER = "default-editor", "pipeline-runner"
"""What Kubeflow Pipelines runs steps as: in the namespace of one of several users, in its own."""

Namespace = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", envvar="KFP_NAMESPACE", help="Yours, where it has several users."
    ),
]
Context = Annotated[
    str, typer.Option("--context", help="A context of the KUBECONFIG; default: its current.")
]


_GOES_WITH = {
    **dict.fromkeys(("endpoint", "token_file", "ca_file", "kubeflow_time_zone"), ("kfp",)),
    "service_account": ("argo",),
    **dict.fromkeys(("namespace", "kube_context", "no_wait", "no_check"), THERE),
    **dict.fromkeys(("dataset_claim", "cache_claim", "images", "parallelism"), THERE),
}
"""The targets of the options that do not mean something everywhere."""


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
        from trireme.pipelines.targets.kubeflow.client import Server
        from trireme.pipelines.targets.kubeflow.connection import PATIENCE, Connection

        connection = Connection(
            Server(
                endpoint=self.endpoint,
                namespace=self.namespace,
                token=os.environ.get("KFP_EXISTING_TOKEN", ""),
                token_file=self.token_file,
                ca_file=self.ca_file,
                context=self.context,
            ),
            on_wait=say,
        )
        if stays:
            connection.patience = PATIENCE  # it has answered; from now on it may be away
        return connection


def check_target(context: typer.Context, target: str, known: tuple[str, ...] = TARGETS) -> None:
    """Refuses a target that there is not, and options that would change nothing there.

    Args:
        context: The command's.
        target: What was given.
        known: Those that the command has.

    Raises:
        InputError: One sentence that says so.
    """
    if target not in known:
        raise InputError(f"--target {target!r}: must be one of {', '.join(known)}")
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        is_given = source is not None and source.name == "COMMANDLINE"
        targets = _GOES_WITH.get(option.name or "", TARGETS)
        if is_given and target not in targets:
            raise InputError(f"{option.opts[0]} goes with --target {' or '.join(targets)}")
