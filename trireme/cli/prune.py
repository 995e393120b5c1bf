"""``trireme prune``: remove what old runs have left."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.answers.answer import moment
from trireme.answers.catalogs import OldThing, PrunedList
from trireme.cli.output import Form, Output, show
from trireme.cli.target import on_target
from trireme.cli.time_ago import seconds_of
from trireme.errors import InputError
from trireme.terminal.tables import age, table

if TYPE_CHECKING:
    from trireme.targets.base import Prunable, Target


@on_target()
def prune(
    target: "Target",
    older_than: Annotated[
        str, typer.Option(help="Time since it has ended, or was last used, such as 12h or 30d.")
    ] = "30d",
    keep: Annotated[int, typer.Option(min=0, help="Runs that stay, the newest.")] = 10,
    cache_limit: Annotated[
        str | None,
        typer.Option(
            help="What datasets and packages may take here, such as 100Gi: those that no run has "
            "and that were used longest ago go first, however old they are."
        ),
    ] = None,
    records: Annotated[
        bool,
        typer.Option(
            "--records",
            help="Also MLflow's records here of runs that go or have gone, with their models, but "
            "for the champion, the challenger, what rollback brings back, and what a run that "
            "stays began with.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be removed, and remove nothing.")
    ] = False,
    output: Output = Form.TEXT,
) -> None:
    """Remove old runs with what they have left, and what no run uses any more.

    MLflow keeps its records: models, their versions, metrics, and what reproduce needs. With
    --records they go as well.
    """
    before = time.time() - seconds_of(older_than, "--older-than")
    prunables = target.prunable(before, keep, _bytes(cache_limit), records)
    if output is Form.TEXT:  # what takes long to be removed is told before
        _draw(_answer(prunables, dry_run))
    if not dry_run:
        for prunable in prunables:
            prunable.remove()
    show(_answer(prunables, dry_run), output, _draw_sum)


def _answer(prunables: "list[Prunable]", dry_run: bool) -> PrunedList:
    old_things = [
        OldThing(what=prunable.what, since=moment(prunable.since), bytes=int(prunable.bytes))
        for prunable in prunables
    ]
    return PrunedList(dry_run=dry_run, things=old_things)


def _draw(answer: PrunedList) -> None:
    from trireme.text.units import in_words

    rows = [
        [thing.what, age(thing.since.timestamp()), in_words(thing.bytes) if thing.bytes else ""]
        for thing in answer.things
    ]
    table(["WOULD BE REMOVED" if answer.dry_run else "REMOVED", "AGE", "SIZE"], rows)


def _draw_sum(answer: PrunedList) -> None:
    from trireme.text.units import in_words

    total = sum(thing.bytes for thing in answer.things)
    freed = f", {in_words(total)}" if total else ""
    typer.echo(f"{len(answer.things)} {'would be ' * answer.dry_run}removed{freed}", err=True)


def _bytes(text: str | None) -> float | None:
    from trireme.kubernetes.amounts import quantity

    try:
        return None if text is None else float(quantity(text))
    except ValueError:
        raise InputError(f"--cache-limit {text!r}: must be an amount such as 100Gi") from None
