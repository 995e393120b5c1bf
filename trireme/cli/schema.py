"""``trireme schema``: the JSON Schema of what ``-o json`` writes."""

import json

import typer


def schema() -> None:
    """Show the JSON Schema of the answers that -o json and -o yaml write, for what reads them."""
    from trireme.answers.schema import schema

    typer.echo(json.dumps(schema(), indent=2))
