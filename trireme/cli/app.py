"""The command line: ``trireme``."""

import io
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NoReturn

import typer
from typer.core import TyperCommand

from trireme import plugins
from trireme.cli.lazy import Lazy, LazyGroup, application, command_of
from trireme.errors import InputError, TriremeError
from trireme.files.whole_file import no_room
from trireme.process import extras
from trireme.process.processes import limit_reached
from trireme.process.signals import from_a_terminal
from trireme.text.say import forget_reader, say
from trireme.tracking.environment import separate_login

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class _Commands(LazyGroup):
    lazy: ClassVar = {
        "init": Lazy(
            "init:init", "Begin: copy an example, or write trireme.yaml beside a program."
        ),
        "doctor": Lazy(
            "doctor:doctor", "Show what is here and on the cluster, and what is missing."
        ),
        "run": Lazy("run:app", "Run a pipeline here or, with --target, on a cluster."),
        "compile": Lazy(
            "compile:compile", "Write pipelines as YAML for Kubeflow Pipelines or Argo."
        ),
        "upload": Lazy(
            "compile:upload", "Upload the pipelines that have changed to Kubeflow or Argo."
        ),
        "plan": Lazy("plan:app", "Show what a run would create, request and cost; check it."),
        "images": Lazy("images:app", "List the images that a pipeline needs."),
        "list": Lazy("runs:list_runs", "List the runs of pipelines, the latest first."),
        "status": Lazy("runs:status", "Show a run and its steps."),
        "explain": Lazy(
            "explain:explain", "Say why a run or job waits or failed, and what to do next."
        ),
        "logs": Lazy("runs:logs", "Show what a run's steps print, each line with its step."),
        "report": Lazy("report:report", "Write a picture of a run: a page of HTML."),
        "compare": Lazy("compare:compare", "Show what differs between runs, and their curves."),
        "goodput": Lazy("goodput:goodput", "Show what the time of trainings went to, by cause."),
        "cancel": Lazy("runs:cancel", "Stop a run and keep its files."),
        "resume": Lazy("runs:resume", "Resume a run from the steps that are not done."),
        "retry": Lazy("runs:resume", "The name of resume in 0.1.", is_hidden=True),
        "sync": Lazy("runs:sync", "Bring to MLflow what it lacks of runs that have ended."),
        "prune": Lazy("prune:prune", "Remove old runs, and what no run uses any more."),
        "models": Lazy(
            "registry:models", "List registered models with champions, or versions of one."
        ),
        "promote": Lazy("registry:promote", "Make a version of a registered model its champion."),
        "rollback": Lazy("registry:rollback", "Make the previous champion the champion again."),
        "reproduce": Lazy(
            "reproduce:reproduce", "Train again as a run did, and compare the models."
        ),
        "tensorboard": Lazy(
            "tensorboard:tensorboard", "Open TensorBoard with what a run's program has written."
        ),
        "serve": Lazy("serve:serve", "Serve a registered model on this machine."),
        "deploy": Lazy("deploy:deploy", "Deploy a registered model to a cluster."),
        "strategy": Lazy(
            "strategy:strategy", "Show which strategy trains a model, and what each needs."
        ),
        "pipelines": Lazy("run:list_pipelines", "List the pipelines."),
        "schema": Lazy("schema:schema", "Show the JSON Schema of what -o json writes."),
        "mcp": Lazy("mcp:mcp", "Serve an agent by MCP: read-only, unless changes are allowed."),
        "ui": Lazy("ui:ui", "Start MLflow's UI with the runs of this machine."),
        "job": Lazy("job:app", "One training job without a pipeline."),
        "dataset": Lazy("dataset:app", "Datasets on a cluster."),
        "config": Lazy("config:app", "What is kept by name: code, datasets, workspaces."),
        "schedule": Lazy("schedule:app", "Schedules of pipelines."),
        "webhook": Lazy("webhook:app", "The URL that is told what came of runs."),
    }

    sections: ClassVar = {
        "Start": ("init", "doctor", "run", "plan", "pipelines", "strategy"),
        "Runs": (
            "list",
            "status",
            "logs",
            "explain",
            "report",
            "compare",
            "goodput",
            "tensorboard",
            "ui",
            "cancel",
            "resume",
            "reproduce",
            "sync",
            "prune",
        ),
        "Models": ("models", "promote", "rollback", "serve", "deploy"),
        "Clusters and pipelines": ("compile", "upload", "images", "schedule", "dataset"),
        "Jobs without a pipeline": ("job",),
        "Settings and tools": ("config", "webhook", "schema", "mcp"),
    }

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of all commands, those of other packages last."""
        own = super().list_commands(ctx)
        return [*own, *self._added()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a command, or None where there is none of that name."""
        command = super().get_command(ctx, cmd_name)
        if command is None and (entry := self._added().get(cmd_name)):
            return TyperCommand(cmd_name, short_help=f"From {plugins.whose(entry)}.")
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the name, the command, loaded, and the arguments for it."""
        name, command, rest = super().resolve_command(ctx, args)
        if name and name not in self.lazy:
            command = _command_of(self._added()[name])
        return name, command, rest

    def _added(self) -> "dict[str, EntryPoint]":
        return plugins.found(plugins.COMMANDS, self.lazy)


def _command_of(entry: "EntryPoint") -> Any:
    try:
        return command_of(plugins.load(entry))
    except TriremeError:
        raise
    except Exception as error:  # Typer's, of what no command can be made of
        reason = plugins.in_words(error)
        raise InputError(f"{plugins.called(entry)} is no command: {reason}") from None


START = """\
Trireme trains models as pipelines, on this machine or on a cluster.

  trireme run pytorch-training            a first run, on data that Trireme brings
  trireme run train.py --data ./flowers   your script, on your data
  trireme status                          how the newest run is
  trireme explain                         why it failed, and what to do
  trireme doctor                          what is here and on the cluster, what is missing

All commands: trireme --help; one of them: trireme COMMAND --help
Tab completes names and options after: trireme --install-completion
"""

app = application(cls=_Commands, add_completion=True)


def _version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(version(extras.DISTRIBUTION))
        raise typer.Exit


@app.callback(invoke_without_command=True)
def trireme(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Distributed deep-learning training as pipelines."""
    if context.invoked_subcommand is None:
        typer.echo(START, nl=False)


def main() -> None:
    """Runs the command line; a person's mistake is one sentence and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not have every letter
    separate_login()
    for_scripts = is_for_a_script(sys.argv[1:])
    try:
        with extras.explained():
            if for_scripts:
                _run_for_a_script()
            app()
    except SystemExit as ended:
        signals = from_a_terminal()
        if ended.code in {128 + number for number in signals}:
            for number in signals:  # while Python ends, another would kill it
                signal.signal(number, signal.SIG_IGN)
        raise
    except TriremeError as error:
        _end(error, for_scripts)
    except RecursionError:
        _end(InputError("what was given is nested too deep"), for_scripts)
    except Exception as error:
        if limit := limit_reached(error):
            _end(TriremeError(limit), for_scripts)
        if not no_room(error) or not _can_write():  # which the flush below tells
            raise
        file = getattr(error, "filename", None)
        disk = f"the disk of {file}" if file else "a disk"
        _end(TriremeError(f"no room is left on {disk}"), for_scripts)
    finally:
        _flush_output()


def _end(error: TriremeError, for_scripts: bool) -> NoReturn:
    """Says on stderr what went wrong, and ends the command."""
    if for_scripts:
        from trireme.cli.output import tell_problem

        tell_problem(error)
    else:
        say(error.shown())
    sys.exit(error.exit_status)


def is_for_a_script(words: Sequence[str]) -> bool:
    """Tells whether a command line asks for JSON or YAML, also one with a mistake in it."""
    own = list(takewhile(lambda word: word != "--", words))
    together = {f"{flag}{form}" for flag in ("-o", "--output=") for form in ("json", "yaml")}
    apart = {(flag, form) for flag in ("-o", "--output") for form in ("json", "yaml")}
    return not together.isdisjoint(own) or not apart.isdisjoint(pairwise(own))


def _run_for_a_script() -> None:
    """Runs the command line; what Typer has to say of a mistake is an ``InputError``."""
    try:
        status = app(standalone_mode=False)
    except Exception as error:
        in_words = getattr(error, "format_message", None)
        if in_words is None:
            raise
        raise InputError(in_words()) from None
    sys.exit(status if isinstance(status, int) else 0)


def _can_write() -> bool:
    try:
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _flush_output() -> None:
    """Writes what is left of the output; without it Python would, and end with 120 where it fails.

    Errors:
        SystemExit: with 1, where it cannot be written and nothing else went wrong.
    """
    if sys.stdout is None:  # closed by whoever started this
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        forget_reader(sys.stdout)
        status = getattr(error.__context__, "code", 0)  # of what ends the command already
        if not status:
            say(f"error: the output cannot be written: {error.strerror}")
            sys.exit(1)
