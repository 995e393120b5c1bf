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
    found = target.prunable(before, keep, _bytes(cache_limit), records)
    if output is Form.TEXT:  # what takes long to be removed is told before
        _draw(_answer(found, dry_run))
    if not dry_run:
        for one in found:
            one.remove()
    show(_answer(found, dry_run), output, _draw_sum)


def _answer(found: "list[Prunable]", dry_run: bool) -> PrunedList:
    things = [
        OldThing(what=one.what, since=moment(one.since), bytes=int(one.bytes)) for one in found
    ]
    return PrunedList(dry_run=dry_run, things=things)


def _draw(shown: PrunedList) -> None:
    from trireme.text.units import in_words

    rows = [
        [one.what, age(one.since.timestamp()), in_words(one.bytes) if one.bytes else ""]
        for one in shown.things
    ]
    table(["WOULD BE REMOVED" if shown.dry_run else "REMOVED", "AGE", "SIZE"], rows)


def _draw_sum(shown: PrunedList) -> None:
    from trireme.text.units import in_words

    total = sum(one.bytes for one in shown.things)
    freed = f", {in_words(total)}" if total else ""
    typer.echo(f"{len(shown.things)} {'would be ' * shown.dry_run}removed{freed}", err=True)


def _bytes(text: str | None) -> float | None:
    from trireme.kubernetes.amounts import quantity

    try:
        return None if text is None else float(quantity(text))
    except ValueError:
        raise InputError(f"--cache-limit {text!r}: must be an amount such as 100Gi") from None
