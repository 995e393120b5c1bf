"""``trireme run --target kfp``: start a run on Kubeflow Pipelines, and stay with it."""

import secrets
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from trireme.components.errors import TriremeError
from trireme.components.signals import Interrupted, from_a_terminal, handled, interrupt
from trireme.pipelines.catalog import Pipeline
from trireme.pipelines.cli import compile as upload_cli
from trireme.pipelines.cli.target import Place
from trireme.pipelines.console import Console
from trireme.pipelines.targets.kubeflow import (
    experiments,
    following,
    parameters,
    results,
    runs,
    uploading,
)
from trireme.pipelines.targets.kubeflow.connection import Connection
from trireme.pipelines.targets.kubeflow.reading import ENDED, Run
from trireme.pipelines.targets.steps import Part, ways

NOT_EXPORTED = "not exported"
"""What the result of a step begins with that keeps a model from being exported."""


def run(
    pipeline: Pipeline,
    arguments: dict[str, Any],
    claims: dict[str, Path],
    place: Place,
    console: Console,
    *,
    wait: bool,
) -> int:
    """Runs a pipeline on Kubeflow Pipelines; returns the command's exit status.

    Args:
        pipeline: The pipeline.
        arguments: A value for every parameter.
        claims: What all of its pods have mounted.
        place: Where Kubeflow Pipelines is.
        console: Where the run is shown.
        wait: Stay until it ends.

    Raises:
        TriremeError: It cannot be started, or has not succeeded.
    """
    parameters.check(arguments)
    experiment = experiments.name_of(pipeline.name, arguments)
    connection = place.connect(stays=wait)
    version = uploading.upload(connection, pipeline, claims)
    upload_cli.show(pipeline.name, version, console)
    name = f"{pipeline.name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    started = runs.start(connection, version, name, experiment, arguments)
    console.print(f"{name} started", "bold")
    console.facts({"Id": started.id, "Page": started.page})
    if note := runs.record_of(started):
        console.print(f"note: {note}")
    if not wait:
        console.facts({"Status": f"trireme status {started.id} --target kfp"})
        return 0
    steps = ways(pipeline.graph.pipeline_spec)
    return _stay(connection, started, steps, console, place.context)


def _stay(
    connection: Connection, run: Run, steps: dict[str, list[Part]], console: Console, context: str
) -> int:
    """Follows a run until it ends, or until a person has had enough."""
    stopped_by = 0
    while True:
        try:
            with handled(interrupt, from_a_terminal()):
                run = following.follow(connection, run, steps, console)
            break
        except TriremeError:  # nothing is known of the run any more
            _say_it_goes_on(run, console)
            raise
        except Interrupted as interruption:
            if stopped_by or not _wants_it_cancelled(run):
                _say_it_goes_on(run, console)
                return 128 + interruption.number
            stopped_by = 128 + interruption.number
            run = runs.get(connection, run.id)
            if run.state not in ENDED:
                runs.cancel(connection, run)
                console.print(f"{run.name} is being cancelled")
    if stopped_by and run.state == "FAILED":  # as the server calls what was terminated
        run = replace(run, state="KILLED")
    console.print()
    console.print(f"{run.name} {run.state}", "bold")
    console.facts({"Id": run.id, "Page": run.page})
    said = results.results(connection, context, run, list(steps))
    for name, words in said.items():
        if words.startswith(NOT_EXPORTED):
            console.print(f"{name}: {words}")
    error = following.error_of(run, steps, said)
    if stopped_by and run.state == "KILLED":
        return stopped_by
    if error:
        sys.stdout.flush()
        raise error
    return 0


def _say_it_goes_on(run: Run, console: Console) -> None:
    console.print(f"{run.name} goes on; end it with: trireme cancel {run.id} --target kfp")


def _wants_it_cancelled(run: Run) -> bool:
    """Asks the person at the terminal, if there is one."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    with handled(interrupt, from_a_terminal()):
        try:
            return typer.confirm(f"\nCancel {run.name}?", default=False)
        except (Interrupted, typer.Abort):
            return False
