"""The command line: ``trireme``."""

import io
import os
import signal
import sys
from typing import Annotated

import typer

from trireme.components import extras
from trireme.components.errors import TriremeError
from trireme.components.say import say
from trireme.components.signals import from_a_terminal
from trireme.components.tracking.environment import separate_login
from trireme.components.whole_file import no_room
from trireme.pipelines.cli import (
    compile,
    config,
    dataset,
    deploy,
    doctor,
    job,
    plan,
    prune,
    registry,
    report,
    reproduce,
    run,
    runs,
    schedule,
    serve,
    strategy,
    tensorboard,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # halves the time that --help takes
)

job.app.command(name="plan")(plan.plan_job)
app.add_typer(job.app, name="job")
app.add_typer(dataset.app, name="dataset")
app.add_typer(config.app, name="config")
app.add_typer(schedule.app, name="schedule")
app.command()(doctor.doctor)
app.command(add_help_option=False)(run.run)
app.command()(compile.compile)
app.command()(compile.upload)
app.command()(plan.plan)
app.command(name="list")(runs.list_runs)
app.command()(runs.status)
app.command()(runs.logs)
app.command()(report.report)
app.command()(runs.cancel)
app.command()(runs.resume)
app.command()(runs.sync)
app.command()(prune.prune)
app.command(name="retry", hidden=True)(runs.resume)  # its name in 0.1
app.command()(registry.promote)
app.command()(registry.rollback)
app.command()(reproduce.reproduce)
app.command()(tensorboard.tensorboard)
app.command()(serve.serve)
app.command()(deploy.deploy)
app.command()(strategy.strategy)


def _version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        typer.echo(version("trireme"))
        raise typer.Exit


@app.callback()
def trireme(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Distributed deep-learning training as pipelines."""


@app.command(name="pipelines")
def list_pipelines() -> None:
    """List the pipelines."""
    from trireme.pipelines.catalog import PIPELINES, installed

    for name, description in PIPELINES.items():
        typer.echo(f"{name}  {description}")
    for name, entry in installed().items():
        typer.echo(f"{name}  From {entry.dist.name if entry.dist else entry.module}")


@app.command()
def ui(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on 127.0.0.1, default 5000.")
    ] = None,
) -> None:
    """Open MLflow's UI with the runs of this machine."""
    from trireme.components.deployment.serving import check_port
    from trireme.components.home import home, unwritable
    from trireme.components.tracking.store import (
        TRAINING,
        UI_PORT,
        check_reachable,
        default_uri,
        public,
    )

    uri = os.environ.get("MLFLOW_TRACKING_URI") or default_uri(home())
    if uri.startswith(("http://", "https://")):
        typer.echo(f"The runs are at {public(uri)}")
        return
    port = port or UI_PORT
    check_port(port)
    check_reachable(uri)
    try:
        home().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(error) from None
    page = f"http://127.0.0.1:{port}/#/experiments{TRAINING}"
    typer.echo(f"{page} shows {public(uri)}; Ctrl-C stops it")
    sys.stdout.flush()
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--workers", "1", "--uvicorn-opts", "--log-level=warning"]
    environment = {
        "MLFLOW_BACKEND_STORE_URI": uri,  # here, as it may hold a password: anybody sees arguments
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven processes for what we do not use
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "PYTHONWARNINGS": "ignore",  # of MLflow's own code
    }
    os.execve(command[0], command, os.environ | environment)


def main() -> None:
    """Runs the command line; a person's mistake is one sentence and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not have every letter
    separate_login()
    try:
        with extras.explained():
            app()
    except SystemExit as ended:
        told = from_a_terminal()
        if ended.code in {128 + number for number in told}:
            for number in told:  # while Python ends, another would kill it
                signal.signal(number, signal.SIG_IGN)
        raise
    except TriremeError as error:
        if error.detail:
            from trireme.components.plain import plain

            say(plain(error.detail))
        say(f"error: {error}")
        sys.exit(error.exit_status)
    except RecursionError:
        say("error: what was given is nested too deep")
        sys.exit(2)
    except Exception as error:
        if not no_room(error) or not _can_write():  # which the flush below tells
            raise
        file = getattr(error, "filename", None)
        say(f"error: no room is left on {f'the disk of {file}' if file else 'a disk'}")
        sys.exit(1)
    finally:
        _flush_output()


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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = getattr(error.__context__, "code", 0)  # of what ends the command already
        if not status:
            say(f"error: the output cannot be written: {error.strerror}")
            sys.exit(1)
