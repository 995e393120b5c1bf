"""Images by their digests: the pipelines say which, a file says what exactly they are today."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from trireme.components import images, yaml_text
from trireme.components.errors import InputError
from trireme.pipelines.pipeline import Pipeline

# https://github.com/opencontainers/image-spec/blob/v1.1.0/descriptor.md#digests
_PINNED = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")


def read(file: Path | None, pipelines: Sequence[Pipeline]) -> dict[str, str]:
    """Returns the images to use by the names to be replaced, of a YAML file; all have digests."""
    if file is None:
        return {}
    content = yaml_text.read(file, f"--images {file}")
    if not isinstance(content, dict) or not content:
        raise InputError(f"--images {file}: must map names of images to images with digests")
    known = {images.BASE, images.MLFLOW, *images.OF_REPLICAS}
    known = known.union(*(pipeline.images for pipeline in pipelines))
    for name, image in content.items():
        if name not in known:
            raise InputError(
                f"--images {file}: no pipeline uses {name!r}; they use {', '.join(sorted(known))}"
            )
        if not isinstance(image, str) or not _PINNED.fullmatch(image):
            raise InputError(
                f"--images {file}: {image!r} for {name} has no digest; it must be as in "
                "registry.example.org/base@sha256:..., with 64 hexadecimal digits"
            )
    return content


def pinned(pipeline: Pipeline, pins: dict[str, str]) -> Pipeline:
    """Returns a pipeline with other images, wherever it names one; a run may still name its own."""

    def pin(graph: Any) -> None:
        spec = graph.pipeline_spec
        described = _replaced(json_format.MessageToDict(spec), pins)
        spec.Clear()
        json_format.ParseDict(described, spec)

    return pipeline.changed(pin) if pins else pipeline


def _replaced(value: Any, pins: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(inner, pins) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, pins) for inner in value]
    return pins.get(value, value) if isinstance(value, str) else value
