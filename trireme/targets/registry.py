"""The places where pipelines run, and what the command line has to say to reach each."""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trireme import plugins
from trireme.errors import InputError

if TYPE_CHECKING:
    from trireme.targets.base import Target

REACH, BUILD, SCHEDULE = "reach", "build", "schedule"
"""What an option is about: where the place is, what is made for it, and when it runs that."""


@dataclass(frozen=True)
class Option:
    """Something that a person may have to say about a place.

    Attributes:
        name: The target's parameter; on the command line with dashes, unless ``flags`` say else.
        about: REACH, BUILD or SCHEDULE: which commands have it.
        variables: Environment variables that it is taken from.
        flags: How it is written.
    """

    name: str
    help: str
    metavar: str = "TEXT"
    about: str = REACH
    variables: tuple[str, ...] = ()
    default: str = ""
    flags: tuple[str, ...] = ()

    @property
    def preset(self) -> str:
        """What it is where nobody gives it: of its variables, or the default."""
        return next(filter(None, map(os.environ.get, self.variables)), self.default)


@dataclass(frozen=True)
class TargetEntry:
    """A place where pipelines run; pipelines are compiled for a cluster.

    Attributes:
        target: Its ``Target``, as MODULE:CLASS, loaded when it is first used.
        help: What it is, for the help of ``--target``.
        options: What a person may have to say about it; the class is called with their values.
        is_cluster: Whether its runs are pods of a cluster.
    """

    target: str
    help: str
    options: tuple[Option, ...] = ()
    is_cluster: bool = True


NAMESPACE = Option(
    "namespace",
    "Your namespace, in a multi-user Kubeflow.",
    variables=("KFP_NAMESPACE",),
    flags=("--namespace", "-n"),
)
CONTEXT = Option(
    "kube_context",
    "Context of the KUBECONFIG; default: the current one.",
    flags=("--context",),
)

TARGETS = {
    "local": TargetEntry("trireme.targets.local.target:Local", "this machine", is_cluster=False),
    "kfp": TargetEntry(
        "trireme.targets.kubeflow.target:Kubeflow",
        "Kubeflow Pipelines",
        (
            Option(
                "endpoint",
                "URL of Kubeflow Pipelines; default: through the KUBECONFIG.",
                "URL",
                variables=("KF_PIPELINES_ENDPOINT", "KFP_ENDPOINT"),
            ),
            Option(
                "token_file",
                "File with a token for it; or give the token in KFP_EXISTING_TOKEN.",
                "FILE",
                variables=("KF_PIPELINES_SA_TOKEN_PATH",),
            ),
            Option(
                "ca_file",
                "File with CA certificates for it.",
                "FILE",
                variables=("REQUESTS_CA_BUNDLE",),
            ),
            NAMESPACE,
            CONTEXT,
            Option(
                "kubeflow_time_zone",
                "CRON_SCHEDULE_TIMEZONE of Kubeflow's schedule controller.",
                "ZONE",
                SCHEDULE,
                variables=("KFP_TIME_ZONE",),
                default="UTC",
            ),
        ),
    ),
    "argo": TargetEntry(
        "trireme.targets.argo.target:Argo",
        "plain Argo Workflows",
        (
            NAMESPACE,
            CONTEXT,
            Option(
                "service_account",
                "With --target argo: service account of the steps' pods.",
                "NAME",
                BUILD,
                default="trireme",
            ),
        ),
    ),
}
"""All places by the names that ``--target`` takes."""

TARGETS = plugins.every(plugins.TARGETS, TargetEntry) | TARGETS

CLUSTERS = tuple(name for name, entry in TARGETS.items() if entry.is_cluster)


def entry(name: str) -> TargetEntry:
    """Returns what is known of a place before it is opened."""
    if name not in TARGETS:
        raise InputError(f"--target {name!r}: must be one of {', '.join(TARGETS)}")
    return TARGETS[name]


def open(name: str, given_options: Mapping[str, Any]) -> "Target":
    """Returns a place to run pipelines at; nothing is asked there yet."""
    module, _, kind = entry(name).target.partition(":")
    options = {
        option.name: given_options.get(option.name, option.preset) for option in entry(name).options
    }
    target: Target = getattr(importlib.import_module(module), kind)(**options)
    return target
