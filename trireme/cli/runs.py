"""Runs that there are: ``trireme list``, ``status``, ``logs``, ``cancel`` and ``resume``."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.cli.output import Form, Output, line_by_line, show
from trireme.cli.target import Verbose, on_target
from trireme.cli.waiting import For, Timeout, wait
from trireme.targets import listing
from trireme.targets.meant import meant
from trireme.terminal.tables import table

if TYPE_CHECKING:
    from trireme.answers.runs import RunStatus
    from trireme.targets.base import Target

_RUN = (
    "Its name, the beginning of it, or with kfp its id; MODEL@ALIAS for the run that a registered "
    "model comes from; latest for the newest"
)
RunName = Annotated[
    str, typer.Argument(metavar="[RUN]", help=f"{_RUN}, which is the default.", show_default=False)
]
# Who changes something says what: in a namespace of many, the newest may be another's.
ChangedRun = Annotated[str, typer.Argument(metavar="RUN", help=f"{_RUN}.")]
Later = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        help="Another value for what comes after training, as evaluation, gate or model_name; "
        "repeatable.",
    ),
]


@on_target()
def list_runs(target: "Target", output: Output = Form.TEXT) -> None:
    """List the runs of pipelines, the latest first, with the parameters that differ."""
    runs = target.latest()
    if not runs:
        typer.echo(target.no_runs(), err=True)
    show(listing.run_list(target, runs), output, lambda answer: table(*listing.rows(answer.runs)))
    target.catch_up(runs)


@on_target()
def status(
    target: "Target",
    run: RunName = "",
    until: For = "",
    timeout: Timeout = None,
    output: Output = Form.TEXT,
) -> None:
    """Show a run and its steps; with --for, when it is in a state."""
    from trireme.targets import answers

    found_run = target.find(meant(target, run))

    def look() -> tuple[str, bool]:
        nonlocal found_run
        found_run = target.find(found_run.key)
        return found_run.state, answers.has_ended(found_run.state)

    reached = wait(look, until, timeout, answers.STATES)
    show(answers.run_status(target, found_run), output, _draw)
    target.catch_up([found_run])
    raise typer.Exit(reached)


def _draw(answer: "RunStatus") -> None:
    from trireme.terminal.console import Console

    console = Console(sys.stdout)
    console.heading(f"{answer.name}: {answer.state}, {answer.seconds:.0f} s")
    if answer.message:
        console.print(answer.message)
    rows = [
        [step.name, step.state, f"{step.seconds:.0f}" if step.seconds else "", step.result]
        for step in answer.steps
    ]
    table(["STEP", "STATE", "SECONDS", "RESULT"], rows)
    goodput = {"Goodput": answer.goodput.words} if answer.goodput else {}
    console.facts(answer.outcome | goodput)
    for line in answer.last_lines:
        console.print(line)
    console.facts(answer.next)


@on_target()
def logs(
    target: "Target",
    run: RunName = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow until the run ends.")
    ] = False,
    step: Annotated[str, typer.Option(help="Only this step, such as train or trial-000.")] = "",
    output: Output = Form.TEXT,
) -> None:
    """Show the output of a run's steps, each line with its step."""
    from trireme.process.signals import Interrupted, from_a_terminal, handled, interrupt
    from trireme.targets import answers
    from trireme.terminal.engine_lines import StepLines

    lines = StepLines(line_by_line(output, answers.step_line))
    try:
        with suppress(BrokenPipeError), handled(interrupt, from_a_terminal()):
            target.logs(meant(target, run), step, lines, follow=follow)
    except Interrupted as interruption:  # the run goes on
        raise typer.Exit(128 + interruption.number) from None


@on_target()
def cancel(target: "Target", run: ChangedRun) -> None:
    """Stop a run and keep its files."""
    typer.echo(target.cancel(meant(target, run)))


@on_target()
def resume(
    target: "Target", run: ChangedRun, param: Later = None, verbose: Verbose = False
) -> None:
    """Resume a run that failed or was killed, from the steps that are not done."""
    from trireme.terminal.console import Console

    raise typer.Exit(target.resume(meant(target, run), Console(sys.stdout, verbose), param or []))


@on_target()
def sync(target: "Target") -> None:
    """Bring to MLflow what it lacks of runs that ended while it was away."""
    if not target.catch_up(target.latest()):
        raise typer.Exit(1)
    typer.echo("MLflow has all runs")
