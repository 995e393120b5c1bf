"""The command line of serving: ``trireme serve``."""

import json
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.cli.registry import ServedModel
from trireme.deployment.kinds import check_kind
from trireme.errors import InputError
from trireme.images import PYTORCH
from trireme.process.signals import from_a_terminal, handled

if TYPE_CHECKING:
    from trireme.deployment.model_version import DownloadedModel
    from trireme.deployment.serving import Server

SHOWN = 1000  # characters of a request or an answer that are shown; more goes to a file, or is cut


def serve(
    model: ServedModel,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port on 127.0.0.1; default: a free one.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare its answers with the exported file's, and exit."),
    ] = False,
    render: Annotated[
        str, typer.Option(metavar="KIND", help="Print manifests instead: kserve, or deployment.")
    ] = "",
    image: Annotated[
        str,
        typer.Option(help="With --render deployment: image with MLflow and the model's packages."),
    ] = PYTORCH,
    adapter: Annotated[
        list[str],
        typer.Option(
            metavar="MODEL",
            help="With --render deployment: a language model trained from this one, whose adapter "
            "vLLM serves beside it; may be repeated.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every line of the server.")
    ] = False,
) -> None:
    """Serve a registered model on this machine: by MLflow's scoring server, or OpenAI's API."""
    if render:
        if check or port:
            raise InputError("--render starts no server: leave out --check and --port")
        _render(model, render, image, adapter)
        return
    if adapter:
        raise InputError("--adapter goes with --render deployment")
    with handled(_end, from_a_terminal()):
        from trireme.deployment import model_version, serving
        from trireme.runner.local.ports import Ports
        from trireme.tracking import model_versions

        with closing(Ports()) as ports, tempfile.TemporaryDirectory(prefix="trireme-") as directory:
            if port:
                serving.check_port(port)
            version = model_versions.find(model)
            if version.note:
                typer.echo(version.note, err=True)
            downloaded = model_version.download(version, Path(directory, "model"))
            run = _check if check else _serve
            run(downloaded, port or ports.take(), verbose)


def _render(text: str, kind: str, image: str, adapters: list[str]) -> None:
    from trireme.deployment import adapters as of_adapters
    from trireme.deployment import manifests, model_version, openai_api
    from trireme.manifests import to_yaml
    from trireme.tracking import model_versions, store

    check_kind("--render", kind)
    uri = store.use()
    model = model_versions.find(text)
    if model.note:
        typer.echo(model.note, err=True)
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        downloaded = model_version.download(model, Path(directory, "model"))
        size, api = downloaded.size, openai_api.of(downloaded)
    if adapters and (kind != "deployment" or not api):
        what = f"--render {kind}" if kind != "deployment" else f"{model}, no language model"
        raise InputError(f"--adapter goes with --render deployment of a language model, not {what}")
    if kind == "kserve":
        storage = model_version.storage_uri(model)
        rendered = [manifests.inference_service(model, storage, size, api)]
    else:
        image = manifests.VLLM if api and image == PYTORCH else image
        example = model_version.example_file(model)
        beside = of_adapters.of(adapters, model)
        rendered = manifests.deployment(model, example, uri, image, size, api, beside)
    typer.echo("---\n".join(to_yaml(manifest) for manifest in rendered), nl=False)


def _serve(downloaded: "DownloadedModel", port: int, verbose: bool) -> None:
    from trireme.deployment import openai_api, serving, smoke_test

    request, api = smoke_test.request(downloaded), openai_api.of(downloaded)
    with serving.started(downloaded.files, port, _shown(verbose), api) as server:
        answer = server.first_answer(request)
        typer.echo(f"{downloaded.model} answers at {server.url}\n")
        if api:
            request = json.dumps(api.request(json.loads(request)))
        typer.echo(f"{_curl(server, request, downloaded.files)}\n\n{_shortened(answer)}\n")
        if api:
            typer.echo(f"{api.in_python(server.base_url)}\n")
        typer.echo(f"Its log is {serving.log_file(port)}; Ctrl-C stops it")
        sys.stdout.flush()
        server.wait()


def _check(downloaded: "DownloadedModel", port: int, verbose: bool) -> None:
    from trireme.deployment import openai_api, serving, smoke_test

    pairs = smoke_test.expected_answers(downloaded)
    api = openai_api.of(downloaded)
    with serving.started(downloaded.files, port, _shown(verbose), api) as server:
        server.first_answer(smoke_test.request(downloaded))
        agreement = smoke_test.compare(server, pairs)
    typer.echo(f"{downloaded.model} {agreement}")


def _end(number: int, frame: FrameType | None) -> None:
    for signal_number in from_a_terminal():
        signal.signal(signal_number, signal.SIG_IGN)  # once is enough
    raise SystemExit(128 + number)


def _shown(verbose: bool) -> Callable[[str], None]:
    return (lambda line: typer.echo(line, err=True)) if verbose else (lambda line: None)


def _curl(server: "Server", request: str, directory: Path) -> str:
    """Returns a command that sends a request; one too long for a line is left in a file."""
    if len(request) > SHOWN:
        file = directory / "request.json"
        file.write_text(request)
        request = f"@{file}"
    header = "Content-Type: application/json"
    return shlex.join(["curl", server.url, "-H", header, "-d", request])


def _shortened(answer: str) -> str:
    return answer if len(answer) <= SHOWN else f"{answer[:SHOWN]} ..."
