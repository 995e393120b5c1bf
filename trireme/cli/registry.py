"""The command line of the model registry: ``trireme models``, ``promote`` and ``rollback``."""

from typing import TYPE_CHECKING, Annotated

import typer

from trireme.terminal.tables import age, table

if TYPE_CHECKING:
    from trireme.deployment.registered import Version

ServedModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL[@ALIAS|/VERSION]",
        help="A registered model: by default its champion, else its newest version.",
    ),
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="The registered model.")]


def models(
    model: Annotated[
        str,
        typer.Argument(
            metavar="[MODEL]", help="Show the versions of this one.", show_default=False
        ),
    ] = "",
) -> None:
    """List the registered models with their champions, or the versions of one."""
    from trireme.deployment import registered
    from trireme.tracking.registry import CHAMPION

    found = registered.versions(model)
    if not found:
        typer.echo(
            "no registered models yet; a run registers one with -p model_name=NAME", err=True
        )
        return
    if model:
        head = ["VERSION", "ALIAS", "METRIC", "AGE", "CHAMPION FOR", "RUN"]
        rows = [
            [
                each.number,
                ", ".join(each.aliases),
                each.metric,
                age(each.created),
                _since(each),
                each.run,
            ]
            for each in found
        ]
        table(head, rows)
        return
    head = ["MODEL", "VERSIONS", "CHAMPION", "METRIC", "FOR", "RUN"]
    rows = []
    for name in dict.fromkeys(each.model for each in found):
        own = [each for each in found if each.model == name]
        champion = next((each for each in own if CHAMPION in each.aliases), None)
        about = (
            [champion.number, champion.metric, _since(champion), champion.run] if champion else []
        )
        rows.append([name, len(own), *(about or ["none", "", "", ""])])
    table(head, rows)


def _since(version: "Version") -> str:
    return age(version.since) if version.since else ""


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
