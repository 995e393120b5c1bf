"""The command line of what is told of runs: ``trireme webhook``."""

from typing import Annotated

import typer

from trireme.cli.lazy import application
from trireme.credentials import secrets
from trireme.errors import InputError
from trireme.files.home import home

app = application(no_args_is_help=True, help="The URL that is told what came of runs.")


@app.callback()
def _group() -> None:
    """Keeps the name of a command that is alone in its group."""


@app.command()
def test(
    secret: Annotated[
        str,
        typer.Argument(metavar="[SECRET]", help="The Secret of this machine with the URL."),
    ] = secrets.DEFAULTS["webhook"],
) -> None:
    """Post an example to the URL of a Secret, and show the answer."""
    from trireme.finish import webhook

    secrets.check("webhook_secret", secret)
    if not secrets.is_here(secret):
        raise InputError(
            f"webhook_secret {secret!r}: this machine has no such Secret; write the URL into "
            f"{home() / 'secrets' / secret / 'url'}"
        )
    typer.echo(f"the webhook of {secret} answers {webhook.send_example(secret)}")
