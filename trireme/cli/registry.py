"""The command line of the model registry: ``trireme models``, ``promote`` and ``rollback``."""

from typing import Annotated

import typer

from trireme.answers.answer import moment, moment_if_known
from trireme.answers.catalogs import ModelList, ModelVersion
from trireme.cli.output import Form, Output, show
from trireme.terminal.tables import age, table

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
    output: Output = Form.TEXT,
) -> None:
    """List the registered models with their champions, or the versions of one."""
    from trireme.deployment import registered

    found_versions = registered.versions(model)
    if not found_versions:
        typer.echo(
            "no registered models yet; a run registers one with -p model_name=NAME", err=True
        )
    versions = [
        ModelVersion(
            model=version.model,
            number=version.number,
            aliases=version.aliases,
            metric=version.metric,
            created=moment(version.created),
            champion_since=moment_if_known(version.since),
            run=version.run,
        )
        for version in found_versions
    ]
    show(ModelList(versions=versions), output, _draw_versions if model else _draw_models)


def _draw_versions(answer: ModelList) -> None:
    rows = [
        [
            *(row.number, ", ".join(row.aliases), row.metric, age(row.created.timestamp())),
            *(_since(row), row.run),
        ]
        for row in answer.versions
    ]
    table(["VERSION", "ALIAS", "METRIC", "AGE", "CHAMPION FOR", "RUN"], rows)


def _draw_models(answer: ModelList) -> None:
    from trireme.tracking.registry import CHAMPION

    rows = []
    for name in dict.fromkeys(version.model for version in answer.versions):
        own = [version for version in answer.versions if version.model == name]
        champion = next((version for version in own if CHAMPION in version.aliases), None)
        about = (
            [champion.number, champion.metric, _since(champion), champion.run] if champion else []
        )
        rows.append([name, len(own), *(about or ["none", "", "", ""])])
    table(["MODEL", "VERSIONS", "CHAMPION", "METRIC", "FOR", "RUN"], rows)


def _since(version: ModelVersion) -> str:
    return age(version.champion_since.timestamp()) if version.champion_since else ""


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
