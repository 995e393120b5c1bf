"""The places where pipelines run, and what the command line has to say to reach each."""

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from inspect import signature
from typing import TYPE_CHECKING, Any

from trireme import plugins
from trireme.errors import InputError, TriremeError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
    def written(self) -> tuple[str, ...]:
        """How it is written on the command line."""
        return self.flags or (f"--{self.name.replace('_', '-')}",)

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
    "Namespace of the runs; default: kubeflow or, with argo, that of the KUBECONFIG.",
    "NAME",
    variables=("KFP_NAMESPACE",),
    flags=("--namespace", "-n"),
)
CONTEXT = Option(
    "kube_context",
    "Context of the KUBECONFIG; default: the current one.",
    "NAME",
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

OURS = (*TARGETS,)

TAKEN = (
    "--bundle --cache-claim --cache-limit --catch-up --concurrency --cron --data "
    "--dataset-claim --dataset-claims --dry-run --ends --env --file --follow --for --help "
    "--images --keep --name --no-check --no-wait --older-than --output --parallelism --param "
    "--parameters --params --paused --pipeline --pipelines --port --probe --records --run "
    "--running --runs --secret-env --shape --starts --step --storage-class --target "
    "--time-zone --timeout --until --verbose --version --wants-help --workspace -f -o -p -v "
    "-w"
)
"""How options of commands and arguments of ``trireme.run`` are written that are of no place."""


def _fault(name: str, added: TargetEntry) -> str:
    """Returns what is wrong with a place of another package; empty for nothing."""
    options: object = added.options
    if not (isinstance(options, tuple) and all(isinstance(option, Option) for option in options)):
        return "its options are no tuple of Option"
    options_of_all = [option for target in (*TARGETS.values(), added) for option in target.options]
    for option in added.options:
        for field in fields(Option):
            expected = tuple if field.name in ("variables", "flags") else str
            if not isinstance(getattr(option, field.name), expected):
                return f"{field.name} of its option {option.name!r} is no {expected.__name__}"
        if not option.name.isidentifier():
            return f"its option {option.name!r} has no name that a parameter can have"
        if option.about not in (REACH, BUILD, SCHEDULE):
            return f"its option {option.name!r} is about none of {REACH}, {BUILD} and {SCHEDULE}"
        words = {f"--{option.name.replace('_', '-')}", *option.written}
        options_of_others = [other for other in options_of_all if other != option]
        if option.name in [other.name for other in options_of_others] or not words.isdisjoint(
            {*TAKEN.split()}.union(*(other.written for other in options_of_others))
        ):
            return f"its option {option.name!r} has another meaning on the command line"
    TARGETS[name] = added
    return ""


_ADDED = plugins.every(plugins.TARGETS, TargetEntry, OURS, _fault)

CLUSTERS = tuple(name for name, entry in TARGETS.items() if entry.is_cluster)


_STATUS = plugins.Result(lambda status: isinstance(status, int), "exit status")


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
    if name in _ADDED:
        return _opened(plugins.found(plugins.TARGETS, OURS)[name], options)
    target: Target = getattr(importlib.import_module(module), kind)(**options)
    return target


def _opened(point: "EntryPoint", options: dict[str, str]) -> "Target":
    """Returns a place of another package, whose methods fail in one sentence."""
    from trireme.targets.base import Target

    path, owner = entry(point.name).target, plugins.called(point)
    module, _, kind = path.partition(":")
    try:
        target_class = getattr(importlib.import_module(module), kind)
    except (Exception, SystemExit) as error:
        raise InputError(f"{owner}: {path} cannot be loaded: {plugins.in_words(error)}") from None
    if not (isinstance(target_class, type) and issubclass(target_class, Target)):
        raise InputError(f"{owner}: {path} is no Target")
    if getattr(target_class, "name", None) != point.name or not hasattr(target_class, "title"):
        raise InputError(f"{owner}: {path} needs the name {point.name!r}, and a title")
    try:
        signature(target_class).bind(**options)
    except TypeError as error:
        raise InputError(f"{owner}: {path} does not take its options: {error}") from None
    try:
        target = target_class(**options)
    except TriremeError:
        raise
    except Exception as error:
        if plugins.ends_a_command(error):
            raise
        raise InputError(f"{owner}: {path} cannot be opened: {plugins.in_words(error)}") from error
    plugins.guard(target, Target, point, dict.fromkeys(("run", "resume"), _STATUS))
    return target
