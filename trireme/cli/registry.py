"""The command line of the model registry: ``trireme promote`` and ``trireme rollback``."""

from typing import Annotated

import typer

ServedModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL[@ALIAS|/VERSION]",
        help="A registered model: by default its champion, else its newest version.",
    ),
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="The registered model.")]


def promote(
    model: Model,
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="Number of the version, such as 3.")
    ],
) -> None:
    """Make a version of a registered model its champion."""
    from trireme.tracking import registry, store

    store.use()
    before = registry.promote(model, version)
    was = f", instead of version {before}" if before and before != version else ""
    typer.echo(f"{model} version {version} is the champion{was}")


def rollback(model: Model) -> None:
    """Make the previous champion the champion again."""
    from trireme.tracking import registry, store

    store.use()
    left, now = registry.rollback(model)
    typer.echo(f"{model} version {now} is the champion again, instead of version {left}")
