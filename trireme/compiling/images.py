"""Images by their digests: the pipelines say which, a file says what exactly they are today."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from trireme import images
from trireme.errors import InputError
from trireme.graph.changing import Draft, with_texts
from trireme.pipeline.pipeline import Pipeline
from trireme.text import yaml_text

# https://github.com/opencontainers/image-spec/blob/v1.1.0/descriptor.md#digests
_PINNED = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")


def read(file: Path | None, pipelines: Sequence[Pipeline] | None = None) -> dict[str, str]:
    """Returns the images to use by the names to be replaced, of a YAML file; all have digests.

    Args:
        pipelines: Those that use what it names; None where that was checked before.
    """
    if file is None:
        return {}
    content = yaml_text.read(file, f"--images {file}")
    if not isinstance(content, dict) or not content:
        raise InputError(f"--images {file}: must map names of images to images with digests")
    known = {images.BASE, images.MLFLOW, *images.OF_REPLICAS}
    known = known.union(*(pipeline.graph.images for pipeline in pipelines or ()))
    for name, image in content.items():
        if pipelines is not None and name not in known:
            raise InputError(
                f"--images {file}: no pipeline uses {name!r}; they use {', '.join(sorted(known))}"
            )
        if not isinstance(image, str) or not _PINNED.fullmatch(image):
            raise InputError(
                f"--images {file}: {image!r} for {name} has no digest; it must be as in "
                "registry.example.org/base@sha256:..., with 64 hexadecimal digits"
            )
    return content


def is_pinned(image: str) -> bool:
    """Tells whether a name means the same image for ever."""
    return bool(_PINNED.fullmatch(image))


def notes(used: Iterable[str], missing: Iterable[str] = ()) -> list[str]:
    """Says what a person should know of the images of pipelines, a sentence each.

    Args:
        used: The images.
        missing: Those that their registries do not have.
    """
    said = []
    if without := sorted({image for image in used if not is_pinned(image)}):
        said.append(
            f"note: without a digest, so that what is run can change: {', '.join(without)}; "
            "--images pins them"
        )
    if gone := sorted({*missing}):
        said.append(f"warning: not in their registries: {', '.join(gone)}")
    return said


def pinned(pipeline: Pipeline, pins: dict[str, str]) -> Pipeline:
    """Returns a pipeline with other images, wherever it names one; a run may still name its own."""
    if not pins:
        return pipeline
    of_replicas = {name: pins[name] for name in images.OF_REPLICAS if name in pins}

    def give(draft: Draft) -> None:
        for path, step in draft.graph.steps:
            wanted = step.input_parameters.get("images")
            if step.keeps_journal and wanted and wanted.default == {}:  # train, and a trial
                draft.give(path, "images", of_replicas)

    return replace(pipeline, graph=with_texts(pipeline.graph, pins)).changed(give)
