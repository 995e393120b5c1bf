"""``--target`` and what goes with it, for every command that has it: options are declared once."""

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.cli.lazy import CLUSTER, Command
from trireme.errors import InputError
from trireme.targets import registry
from trireme.targets.registry import CLUSTERS, REACH, TARGETS, Option

if TYPE_CHECKING:
    from trireme.pipeline.pipeline import Pipeline

PipelineName = Annotated[
    str,
    typer.Argument(
        metavar="PIPELINE",
        help="A name, see 'trireme pipelines'; FILE.py or FILE.py:FUNCTION; or YAML that kfp "
        "compiled.",
    ),
]
PipelineOrProgram = Annotated[
    str,
    typer.Argument(
        metavar="PIPELINE",
        help="A name, see 'trireme pipelines'; FILE.py or FILE.py:FUNCTION; YAML that kfp "
        "compiled; or a training program, FILE.py.",
    ),
]
Data = Annotated[
    str, typer.Option(metavar="URI", help="The dataset: a path, a URI or @NAME of trireme.yaml.")
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", metavar="NAME=VALUE", help="A parameter; repeatable."),
]
Params = Annotated[
    Path | None, typer.Option(metavar="FILE", help="YAML file of parameters; -p overrides it.")
]
Env = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="A variable of the training program; repeatable."),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show every line of every step and replica.")
]
SecretEnv = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=SECRET/KEY",
        help="Likewise, from a Secret; on this machine from its own variable NAME.",
    ),
]


def _option(kind: Any, default: Any, *flags: str, **about: Any) -> tuple[Any, Any]:
    return Annotated[kind, typer.Option(*flags, **about)], default


Images = Annotated[
    Path | None,
    typer.Option(
        "--images",
        metavar="FILE",
        rich_help_panel=CLUSTER,
        help="YAML file that maps image names to images with digests.",
    ),
]

LOADING = {
    "dataset_claims": _option(
        list[str],
        [],
        "--dataset-claim",
        metavar="CLAIM",
        rich_help_panel=CLUSTER,
        help="A PVC for dataset_uri pvc://CLAIM/path; repeatable.",
    ),
    "cache_claim": _option(
        str,
        "",
        metavar="CLAIM",
        rich_help_panel=CLUSTER,
        help="A PVC for datasets that all runs share.",
    ),
    "storage_class": _option(
        str,
        "",
        metavar="NAME",
        rich_help_panel=CLUSTER,
        help="StorageClass of each run's workspace.",
    ),
    "shape": _option(
        Path | None,
        None,
        metavar="FILE",
        rich_help_panel=CLUSTER,
        help="YAML file: what pods of steps get, the workspace's size.",
    ),
    "images": (Images, None),
    "parallelism": _option(
        int | None,
        None,
        min=1,
        metavar="N",
        help="Turns of a loop at once, such as a sweep's trainings (4 by default); on this machine "
        "steps at once (by default as many as there are CPUs).",
    ),
}
"""What ``loading.loaded`` takes besides pipelines, as options with their defaults."""

ON_CLUSTERS = ("no_check", *(name for name in LOADING if name != "parallelism"))
"""Options of commands that mean nothing on this machine."""


def _use_workspace(context: typer.Context, name: str) -> str:
    """Makes the fields of a workspace the defaults of a command's other options."""
    if not name:
        return name
    from trireme.pipeline import saved

    defaults = saved.workspace(name)
    if "mlflow" in defaults:
        os.environ["MLFLOW_TRACKING_URI"] = defaults["mlflow"]
    if "context" in defaults:
        defaults["kube_context"] = defaults["context"]  # its name where there are targets
    for option in context.command.params:
        if option.name in defaults:
            option.envvar = None  # it was named just now, variables some time ago
    context.default_map = defaults
    return name


Workspace = Annotated[
    str,
    typer.Option(
        "--workspace",
        "-w",
        metavar="NAME",
        callback=_use_workspace,
        is_eager=True,
        rich_help_panel=CLUSTER,
        help="A workspace of trireme.yaml; other options win.",
    ),
]


class WithWords(Command):
    """A command that takes the arguments of a training program after ``--``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keeps what comes after ``--`` for ``words``, and parses what comes before."""
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[WORDS] = args[:at], args[at + 1 :]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Returns what the usage line shows."""
        return [*super().collect_usage_pieces(ctx), "[-- ARGUMENTS]"]


WORDS = "trireme.words"


def on_target(
    *about: str,
    loading: Collection[str] = (),
    default: str = "local",
    known: tuple[str, ...] = tuple(TARGETS),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command ``--target`` and its options, checked, and the argument ``target``.

    Args:
        about: The options that it takes besides how to reach the place: BUILD, SCHEDULE.
        loading: Those of LOADING that it takes, and gets by name in the argument ``loading``.
    """
    options = {
        option.name: option
        for name in known
        for option in TARGETS[name].options
        if option.about in (REACH, *about)
    }

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def called(context: typer.Context, **kwargs: Any) -> None:
            target, given_options = (
                kwargs.pop("target"),
                {name: kwargs.pop(name) for name in options},
            )
            del kwargs["workspace"]  # its fields are in the others
            _check(context, target, known)
            kwargs |= _not_there(context, target)
            if loading:
                kwargs["loading"] = {name: kwargs.pop(name) for name in loading}
            if "context" in own:
                kwargs["context"] = context
            command(target=registry.open(target, given_options), **kwargs)

        own = inspect.signature(command).parameters
        more = {name: option for name, option in LOADING.items() if name in loading}
        words = " ".join(f"{name}: {TARGETS[name].help}." for name in known)
        more["target"] = _option(str, default, metavar="TARGET", help=words)
        more["workspace"] = (Workspace, "")
        more |= {name: _of_place(option) for name, option in options.items()}
        more["context"] = (typer.Context, None)
        return declared(called, command, ("target", "context", "loading"), more)

    return decorate


def declared(
    called: Callable[..., None],
    command: Callable[..., None],
    injected: Collection[str],
    more: Mapping[str, tuple[Any, Any]],
) -> Callable[..., None]:
    """Returns what is called for a command, with the parameters that Typer is to see.

    Args:
        given: The command's own parameters that are no options.
        more: Types and defaults of options that it has besides.
    """
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = inspect.signature(command).parameters.values()
    parameters = [
        parameter.replace(kind=keyword) for parameter in own if parameter.name not in injected
    ]
    parameters += [
        inspect.Parameter(name, keyword, annotation=kind, default=default)
        for name, (kind, default) in more.items()
    ]
    called.__name__, called.__doc__ = command.__name__, command.__doc__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def variables(env: list[str] | None, secret_env: list[str] | None) -> dict[str, dict[str, str]]:
    """Returns the fields of a training job that ``--env`` and ``--secret-env`` give."""
    fields = {"env": env or [], "secret_env": secret_env or []}
    for field, form in (("env", "NAME=VALUE"), ("secret_env", "NAME=SECRET/KEY")):
        for pair in fields[field]:
            if "=" not in pair:
                raise InputError(f"--{field.replace('_', '-')} {pair!r}: must be {form}")
    return {
        field: dict(pair.split("=", 1) for pair in pairs)
        for field, pairs in fields.items()
        if pairs
    }


def asked(
    context: typer.Context,
    reference: str,
    loading: Mapping[str, Any],
    param: list[str] | None,
    params: Path | None,
    data: str,
    job: dict[str, Any],
    connect: Any,
) -> "tuple[Pipeline, dict[str, Any]]":
    """Returns the pipeline that a person wants, and the values that are given for it.

    A training program is a pipeline with its folder as the code; the words after ``--`` are its
    arguments.

    Args:
        job: What ``variables`` returns.
        connect: See ``Pipeline.given``.
    """
    from trireme.compiling import loading as pipelines
    from trireme.pipeline import program

    words = context.meta.get(WORDS)
    chosen, values_of_program = pipelines.asked(reference, **loading)
    pairs = [f"{name}={value}" for name, value in program.named(data).items()]
    values = chosen.given([*pairs, *(param or [])], params, job, connect)
    if words is not None:
        if "args" in values:
            raise InputError("the program's arguments are given twice: by args, and after --")
        values |= chosen.accept({"args": words})
    return chosen, values_of_program | values


def _of_place(option: Option) -> tuple[Any, Any]:
    return _option(
        str,
        option.default,
        *option.written,
        metavar=option.metavar,
        envvar=list(option.variables) or None,
        rich_help_panel=CLUSTER,
        help=option.help,
    )


def _check(context: typer.Context, target: str, names: tuple[str, ...]) -> None:
    """Refuses a target that there is not, and options that would change nothing there."""
    if target not in names:
        raise InputError(f"--target {target!r}: must be one of {', '.join(names)}")
    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        targets = _takes(name)
        if source and source.name == "COMMANDLINE" and targets and target not in targets:
            raise InputError(f"{option.opts[0]} needs --target {' or '.join(targets)}")


def _not_there(context: typer.Context, target: str) -> dict[str, Any]:
    """Returns options of a workspace that mean nothing at a target, as if they were not given."""
    return {
        option.name: option.default  # get_default would return what the workspace has
        for option in context.command.params
        if option.name in ON_CLUSTERS
        and target not in CLUSTERS
        and (source := context.get_parameter_source(option.name))
        and source.name == "DEFAULT_MAP"
    }


def _takes(option: str) -> tuple[str, ...]:
    """Returns the places where an option means something; none where it does everywhere."""
    if option in ON_CLUSTERS:
        return CLUSTERS
    return tuple(
        name
        for name, entry in TARGETS.items()
        if any(option_of_target.name == option for option_of_target in entry.options)
    )
