"""Compile pipelines to kfp's intermediate representation, the YAML of Kubeflow Pipelines."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kfp import kubernetes

from trireme.errors import InputError
from trireme.graph import writing
from trireme.graph.changing import Draft
from trireme.pipeline.pipeline import Pipeline


def mounted(pipeline: Pipeline, claims: dict[str, Path]) -> Pipeline:
    """Returns a pipeline all of whose pods have claims mounted; see ``volumes.mounts``."""
    if not claims:
        return pipeline

    def mount(draft: Draft) -> None:
        for label in draft.document["deploymentSpec"]["executors"]:
            with configured(draft, label) as step:
                for claim, path in claims.items():
                    kubernetes.mount_pvc(step, claim, str(path))

    return replace(pipeline.changed(mount), claims=claims)


def stored(pipeline: Pipeline, storage_class: str) -> Pipeline:
    """Returns a pipeline whose run workspaces are of a StorageClass; empty: of the default one."""

    def store(draft: Draft) -> None:
        if draft.workspace is not None:
            of_kubernetes = draft.workspace.setdefault("kubernetes", {})
            of_kubernetes.setdefault("pvcSpecPatch", {})["storageClassName"] = storage_class

    return pipeline.changed(store) if storage_class else pipeline


def write(pipeline: Pipeline, directory: Path) -> Path:
    """Writes a pipeline's intermediate representation; returns the file, named after it."""
    file = directory / f"{pipeline.name}.yaml"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        writing.write(pipeline.graph, file)
    except OSError as error:
        raise InputError(f"--output {directory}: cannot be written: {error}") from None
    return file


@contextmanager
def configured(draft: Draft, label: str) -> Iterator[Any]:
    """Yields what kfp-kubernetes configures of a step as if the pipeline was still being built."""
    config = {"kubernetes": draft.pod(label)}
    yield SimpleNamespace(platform_config=config)
    draft.set_pod(label, config["kubernetes"])
