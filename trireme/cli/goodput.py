"""Sum of what the time of trainings went to: ``trireme goodput``."""

import time
from typing import Annotated

import typer

from trireme.answers.answer import moment
from trireme.answers.goodput import Goodput, GoodputSum, RunGoodput
from trireme.answers.goodput import goodput as as_answer
from trireme.cli.output import Form, Output, show
from trireme.cli.time_ago import seconds_of
from trireme.terminal.tables import age, table


def goodput(
    since: Annotated[
        str, typer.Option(help="Since when runs are meant, by their start, such as 12h or 30d.")
    ] = "30d",
    pipeline: Annotated[str, typer.Option(metavar="NAME", help="Only runs of this pipeline.")] = "",
    output: Output = Form.TEXT,
) -> None:
    """Show what the time of all trainings that MLflow knows went to, and how often to save."""
    from trireme.observers.goodput import interval
    from trireme.observers.goodput.ledger import Ledger
    from trireme.report import ledgers
    from trireme.report.picture import state_of

    began = time.time() - seconds_of(since, "--since")
    found = list(ledgers.kept(began, pipeline))
    together = sum((each.ledger for each in found), Ledger())
    saving = interval.how_often(together)
    runs = [
        RunGoodput(
            name=each.run.info.run_name or each.run.info.run_id,
            pipeline=each.pipeline,
            state=state_of(each.run.info.status),
            created=moment(each.run.info.start_time / 1000),
            goodput=as_answer(each.ledger),
        )
        for each in found
    ]
    answer = GoodputSum(
        since=moment(began),
        runs=runs,
        together=as_answer(together) if runs else None,
        saving=str(saving) if saving else "",
    )
    if not runs:
        typer.echo(f"no training since {since} ago is in MLflow with its goodput", err=True)
    show(answer, output, _draw)


def _draw(shown: GoodputSum) -> None:
    from trireme.cost.table import in_words
    from trireme.observers.goodput.ledger import CAUSES
    from trireme.text.units import lasting

    if shown.together is None:
        return
    has_gpus, currency = bool(shown.together.gpu_hours), shown.together.currency

    def amounts(minutes: float, gpu_hours: float, cost: float) -> list[str]:
        more = [f"{gpu_hours:.2f}"] if has_gpus else []
        more += [in_words(cost, currency)] if currency else []
        return [lasting(60 * minutes), *more]

    head = ["TIME", *(["GPU HOURS"] if has_gpus else []), *(["COST"] if currency else [])]
    rows = [
        [
            *(run.name, run.state, age(run.created.timestamp()), _share(run.goodput)),
            *amounts(run.goodput.minutes, run.goodput.gpu_hours, run.goodput.cost),
            run.goodput.interruptions,
        ]
        for run in shown.runs
    ]
    table(["RUN", "STATE", "AGE", "GOODPUT", *head, "INTERRUPTIONS"], rows)
    typer.echo()
    whole = shown.together.minutes
    causes = [
        [
            CAUSES[spent.cause],
            f"{spent.minutes / whole:.1%}",
            *amounts(spent.minutes, spent.gpu_hours, spent.cost),
        ]
        for spent in shown.together.causes
    ]
    table(["CAUSE", "SHARE", *head], causes)
    typer.echo(
        f"goodput of {len(rows)} {'run' if len(rows) == 1 else 'runs'}: {shown.together.words}"
    )
    if shown.saving:
        typer.echo(shown.saving)


def _share(of: Goodput) -> str:
    return "-" if of.share is None else f"{of.share:.0%}"
