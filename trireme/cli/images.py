"""The command line of images: ``trireme images``."""

from pathlib import Path
from typing import Annotated

import typer

from trireme.answers.plans import ImageList, NeededImage
from trireme.cli.lazy import application
from trireme.cli.output import Form, Output, show
from trireme.cli.target import Data, Param, Params, PipelineOrProgram, WithWords, asked
from trireme.terminal.tables import table

app = application()


@app.command(cls=WithWords)
def images(
    context: typer.Context,
    pipeline: PipelineOrProgram,
    data: Data = "",
    param: Param = None,
    params: Params = None,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="YAML file that maps image names to images with digests."
        ),
    ] = None,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not ask the registries.")
    ] = False,
    output: Output = Form.TEXT,
) -> None:
    """List the images that a run of a pipeline pulls: pinned or not, in their registries or not."""
    from trireme import planning
    from trireme.compiling import images as pins
    from trireme.compiling import registry

    loading = {"images": images}
    chosen, given = asked(context, pipeline, loading, param, params, data, {}, None)
    found_pins = pins.read(images)
    planned = planning.plan_pipeline(chosen, chosen.complete(given), None, pins=found_pins)
    users: dict[str, list[str]] = {}
    for user, image in [*planned.steps, *((pods.name, pods.image) for pods in planned.pods)]:
        users.setdefault(image, []).append(user)
    users.pop(planning.LATER, None)
    there = {} if no_check else registry.there(users)
    found = [
        NeededImage(name=name, used_by=by, pinned=pins.is_pinned(name), there=there.get(name))
        for name, by in users.items()
    ]
    show(ImageList(pipeline=chosen.name, images=found), output, _draw)


def _draw(shown: ImageList) -> None:
    words = {True: "yes", False: "no", None: "not known"}
    rows = [
        [each.name, "yes" if each.pinned else "no", words[each.there], ", ".join(each.used_by)]
        for each in shown.images
    ]
    table(["IMAGE", "PINNED", "IN REGISTRY", "FOR"], rows)
