"""Pipelines as somebody wants them run: with other images, claims, and trainings at once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trireme.pipelines import catalog
from trireme.pipelines.compiling import images as pins
from trireme.pipelines.compiling import ir
from trireme.pipelines.compiling.loops import limited
from trireme.pipelines.pipeline import Pipeline


def loaded(
    references: Sequence[Any],
    dataset_claims: Sequence[str] | None = None,
    cache_claim: str = "",
    images: Path | None = None,
    parallelism: int | None = None,
    storage_class: str = "",
) -> list[Pipeline]:
    """Returns pipelines as they are for a cluster, with what options say; see ``catalog.load``."""
    found = [catalog.load(reference) for reference in references]
    claims, wanted = ir.mounts(dataset_claims or (), cache_claim), pins.read(images, found)
    changed = [limited(pins.pinned(pipeline, wanted), parallelism) for pipeline in found]
    return [ir.stored(ir.mounted(pipeline, claims), storage_class) for pipeline in changed]
