"""``trireme init``: where a person begins, with an example or with what is there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.errors import InputError

if TYPE_CHECKING:
    from trireme.pipeline.beginning import Begun


def init(
    directory: Annotated[
        Path | None,
        typer.Argument(
            help="Folder for it. Default: this one; with --example, a new one of its name."
        ),
    ] = None,
    example: Annotated[
        str, typer.Option(metavar="NAME", help="Copy an example; 'list' lists them.")
    ] = "",
) -> None:
    """Begin: write trireme.yaml for the program that is there, or copy an example."""
    from trireme.pipeline import beginning

    if example == "list":
        for name, title in beginning.examples().items():
            typer.echo(f"{name:<14} {title}")
        return
    if example:
        _tell(beginning.copied(example, directory or Path(example)))
    else:
        folder = directory or Path()
        if not folder.is_dir():
            raise InputError(f"{folder}: there is no such folder; --example copies one there")
        _tell(beginning.written(folder))


def _tell(begun: "Begun") -> None:
    for line in begun.lines:
        typer.echo(line)
    typer.echo("\nnext:")
    for command in begun.commands:
        typer.echo(f"  {command}")
