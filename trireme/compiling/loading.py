"""Pipelines as somebody wants them run: with other images, claims, and trainings at once."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from trireme.code import bundle
from trireme.code import url as urls
from trireme.compiling import images as pins
from trireme.compiling import ir
from trireme.compiling import shape as shapes
from trireme.compiling.loops import limited
from trireme.data import volumes
from trireme.errors import InputError
from trireme.packages.use import AGAIN
from trireme.pipeline import catalog, packages
from trireme.pipeline.code_and_data import apart
from trireme.pipeline.pipeline import Pipeline
from trireme.pipeline.program import program_of

if TYPE_CHECKING:
    from trireme.kubernetes.connection import Cluster


PACKAGES = {
    *("requirements", "requirements_secret"),
    *("code_url", "code_revision", "code_directory"),
}
"""Parameters that say which packages a run installs."""


class Place(Protocol):
    """A target, as far as is known of it here."""

    @property
    def is_here(self) -> bool:
        """Whether runs end with this machine's processes."""

    def cluster(self) -> "Cluster":
        """Returns the cluster, with the namespace where runs are."""


def loaded(
    references: Sequence[Any],
    *,
    dataset_claims: Sequence[str] = (),
    cache_claim: str = "",
    storage_class: str = "",
    shape: Path | None = None,
    images: Path | None = None,
    parallelism: int | None = None,
) -> list[Pipeline]:
    """Returns pipelines as they are for a cluster, with what options say.

    Args:
        references: As ``catalog.load`` takes them, or pipelines.
        parallelism: How many turns of each loop run at once; on this machine, how many steps.
    """
    modules: dict[Path, ModuleType] = {}
    pipelines = [
        reference if isinstance(reference, Pipeline) else catalog.load(reference, modules)
        for reference in references
    ]
    _refuse_twice(references, pipelines)
    wanted_shape = shapes.read(shape)
    shapes.check_steps(wanted_shape, pipelines)
    claims, replacements = volumes.mounts(dataset_claims, cache_claim), pins.read(images, pipelines)
    changed = [limited(pins.pinned(pipeline, replacements), parallelism) for pipeline in pipelines]
    stored = [ir.stored(ir.mounted(pipeline, claims), storage_class) for pipeline in changed]
    shaped = [shapes.shaped(pipeline, wanted_shape) for pipeline in stored]
    return [replace(pipeline, at_once=parallelism) for pipeline in shaped]


def asked(reference: Any, **options: Any) -> tuple[Pipeline, dict[str, Any]]:
    """Returns the pipeline that a person wants, and the values that it is given.

    A training program is a pipeline with its folder as the code.

    Args:
        reference: As ``catalog.load`` takes it, or the file of a program.
        options: As ``loaded`` takes them.
    """
    values: dict[str, Any] = {}
    is_named = isinstance(reference, str | os.PathLike)
    if is_named and (program := program_of(os.fspath(reference))):
        reference, values = program.pipeline, program.parameters
    (chosen,) = loaded([reference], **options)
    return chosen, values


def _refuse_twice(references: Sequence[Any], pipelines: list[Pipeline]) -> None:
    """Refuses pipelines of one name, of which one would take the other's place."""
    by_name: dict[str, Any] = {}
    for reference, pipeline in zip(references, pipelines, strict=True):
        if pipeline.name in by_name:
            raise InputError(
                f"{by_name[pipeline.name]} and {reference}: both pipelines are called "
                f"{pipeline.name}"
            )
        by_name[pipeline.name] = reference


def ready(
    pipeline: Pipeline, given: dict[str, Any], place: "Place"
) -> tuple[Pipeline, dict[str, Any]]:
    """Returns a pipeline with a value for every parameter, checked; nothing has been made then.

    A directory with code, which a cluster does not have, becomes a bundle that a run takes along.
    """
    if place.is_here:
        return pipeline, pipeline.complete(given | apart(given, pipeline.parameters))
    values = pipeline.complete(given, set(pipeline.claims))  # of a directory also what is in it
    has = pipeline.graph.variables
    # Else they may mean something else, or what is installed is known.
    if pipeline.trainings and values.keys() >= PACKAGES and AGAIN not in has:
        framework = pipeline.trainings(values).job.framework
        packages.check_there(framework, values, has, place.cluster)
    url = given.get("code_url", "")
    if url and urls.is_directory(url):
        urls.check(url)
        at = os.environ.get("MLFLOW_TRACKING_URI", "")
        code = bundle.of_directory(
            url,
            given.get("code_revision", ""),
            at.startswith(("http://", "https://")),
            given.get("code_without", ()),
        )
        pipeline, values["code_url"] = replace(pipeline, bundle=code), code.url
        if "code_revision" in pipeline.parameters:
            values["code_revision"] = code.commit
        if "code_without" in pipeline.parameters:
            values["code_without"] = []
    return pipeline, values
