"""Entries of trireme.yaml, by name: ``trireme config``."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from trireme.answers.catalogs import SavedEntry, SavedList
from trireme.cli.lazy import application
from trireme.cli.output import Form, Output, show
from trireme.errors import InputError
from trireme.targets.registry import TARGETS
from trireme.terminal.tables import table

app = application(
    no_args_is_help=True,
    help="Code, datasets and workspaces that are kept by name in trireme.yaml.",
)


@app.command(name="list")
def list_saved(output: Output = Form.TEXT) -> None:
    """List what there is, the nearer file's where two have a name."""
    from trireme.pipeline import saved

    entries = [
        SavedEntry(
            entry_kind=entry.kind, name=entry.name, where=entry.in_a_word, file=str(entry.file)
        )
        for entry in saved.entries()
    ]
    show(SavedList(entries=entries), output, _draw)
    if not entries:
        typer.echo(f"nothing is kept in {saved.files_in_words()}", err=True)


def _draw(answer: SavedList) -> None:
    rows = [[entry.entry_kind, entry.name, entry.where, entry.file] for entry in answer.entries]
    table(["KIND", "NAME", "WHERE", "FILE"], rows)


@app.command(name="show")
def show_saved(name: Annotated[str, typer.Argument(metavar="NAME", help="Of any kind.")]) -> None:
    """Show what is kept by a name."""
    import yaml

    from trireme.pipeline import saved

    matches = [entry for entry in saved.entries() if entry.name == name.removeprefix("@")]
    if not matches:
        raise InputError(f"{saved.files_in_words()} have no {name!r}; see 'trireme config list'")
    for entry in matches:
        typer.echo(f"# {entry.file}")
        content = {entry.kind: {entry.name: entry.fields}}
        typer.echo(yaml.safe_dump(content, sort_keys=False), nl=False)


@app.command(name="set", short_help="Keep something by a name, or change fields of it.")
def set_saved(
    place: Annotated[
        str, typer.Argument(metavar="KIND.NAME", help="As in code.classifier or workspaces.team.")
    ],
    fields: Annotated[
        list[str],
        typer.Argument(metavar="FIELD=VALUE...", help="Lists and objects as JSON; empty: remove."),
    ],
    user: Annotated[
        bool, typer.Option("--user", help="In your own file, not in the repository's.")
    ] = False,
) -> None:
    """Keep code, a dataset or a workspace by a name, or change fields of it."""
    from trireme.pipeline import saved

    kind, _, name = place.partition(".")
    values: dict[str, Any] = {}
    for pair in fields:
        field, equals, text = pair.partition("=")
        if not equals:
            raise InputError(f"{pair!r}: must be FIELD=VALUE")
        values[field] = _value(field, text)
    file = saved.users_file() if user else saved.repositorys_file() or Path(saved.FILE).absolute()
    saved.save(file, kind, name, values, TARGETS)
    typer.echo(f"{place} is in {file}")


@app.command()
def check() -> None:
    """Check everything that is kept, as far as this machine can tell."""
    from trireme.pipeline import saved

    failed, entries = False, saved.entries()
    if not entries:
        typer.echo(f"nothing is kept in {saved.files_in_words()}", err=True)
    for entry in entries:
        try:
            saved.check(entry, TARGETS)
            typer.echo(f"ok      {entry}")
        except InputError as error:
            failed = True
            typer.echo(f"failed  {error}")
    if failed:
        raise typer.Exit(1)


@app.command(short_help="Show the JSON schema of trireme.yaml, for editors.")
def schema() -> None:
    """Show the JSON schema of trireme.yaml, with which editors complete it."""
    from trireme.pipeline import saved

    typer.echo(json.dumps(saved.Saved.model_json_schema(), indent=2))


def _value(field: str, text: str) -> Any:
    from trireme.text import json_values

    if not text.startswith(("{", "[")):
        return text
    try:
        return json_values.read(text)
    except json_values.GivenTwiceError as error:
        raise InputError(f"{field}: {error}") from None
    except ValueError:
        raise InputError(f"{text!r}: is not JSON") from None
