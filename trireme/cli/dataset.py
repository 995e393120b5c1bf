"""The command line of datasets: ``trireme dataset``."""

from typing import Annotated, Any

import typer

from trireme.cli.lazy import application
from trireme.errors import InputError

app = application(no_args_is_help=True, help="Datasets on a cluster.")


@app.callback()
def _group() -> None:
    """Keeps the name of a command that is alone in its group."""


@app.command(short_help="Print a volume and the claim for it, for kubectl apply.")
def volume(
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="URI of the dataset: nfs://, oss:// or s3://.")
    ],
    name: Annotated[str, typer.Option(help="Of the claim.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Of the claim.")] = "default",
    secret: Annotated[str, typer.Option(help="oss://: the Secret with akId and akSecret.")] = "",
    options: Annotated[
        str, typer.Option(metavar="JSON", help="""Such as '{"region": "cn-hangzhou"}'.""")
    ] = "{}",
) -> None:
    """Print the PersistentVolume and the claim that make it pvc://NAME, for kubectl apply."""
    import yaml

    from trireme.data import volumes
    from trireme.data.description import of_fields
    from trireme.data.uri import CLAIM

    for option, text in (("--name", name), ("--namespace", namespace)):
        if not CLAIM.fullmatch(text):
            raise InputError(f"{option} {text!r}: must be small letters, digits, - and .")
    dataset = of_fields(uri, _object(options) | {"access": "mount", "secret": secret})
    if dataset.place.kind == "pvc":
        raise InputError(f"dataset_uri {uri!r}: there is a claim already")
    typer.echo(
        yaml.safe_dump_all(volumes.persistent(dataset, name, namespace), sort_keys=False), nl=False
    )


def _object(text: str) -> dict[str, Any]:
    from trireme.text import json_values

    try:
        options = json_values.read(text)
    except json_values.GivenTwiceError as error:
        raise InputError(f"--options: {error}") from None
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise InputError(f"--options {text!r}: must be a JSON object")
    return options
