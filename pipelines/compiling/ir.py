"""Compile pipelines to kfp's intermediate representation, the YAML of Kubeflow Pipelines."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from google.protobuf import json_format
from kfp import compiler, kubernetes

from trireme.components.errors import InputError
from trireme.pipelines.pipeline import Pipeline


def mounted(pipeline: Pipeline, claims: dict[str, Path]) -> Pipeline:
    """Returns a pipeline all of whose pods have claims mounted; see ``volumes.mounts``."""
    if not claims:
        return pipeline

    def mount(graph: Any) -> None:
        for executor in graph.pipeline_spec.deployment_spec["executors"]:
            with configured(graph, executor) as step:
                for claim, place in claims.items():
                    kubernetes.mount_pvc(step, claim, str(place))

    return replace(pipeline.changed(mount), claims=claims)


def stored(pipeline: Pipeline, storage_class: str) -> Pipeline:
    """Returns a pipeline whose run workspaces are of a StorageClass; empty: of the default one."""

    def store(graph: Any) -> None:
        of_kubernetes = graph.platform_spec.platforms["kubernetes"]
        if of_kubernetes.pipelineConfig.HasField("workspace"):
            claim = of_kubernetes.pipelineConfig.workspace.kubernetes.pvc_spec_patch
            claim.update({"storageClassName": storage_class})

    return pipeline.changed(store) if storage_class else pipeline


def write(pipeline: Pipeline, directory: Path) -> Path:
    """Writes a pipeline's intermediate representation; returns the file, named after it."""
    file = directory / f"{pipeline.name}.yaml"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        compiler.Compiler().compile(pipeline.graph, str(file))
    except OSError as error:
        raise InputError(f"--output {directory}: cannot be written: {error}") from None
    return file


@contextmanager
def configured(graph: Any, executor: str) -> Iterator[Any]:
    """Yields what kfp-kubernetes configures of a step as if the pipeline was still being built."""
    known = graph.platform_spec.platforms["kubernetes"].deployment_spec.executors[executor]
    config = {"kubernetes": json_format.MessageToDict(known)}
    yield SimpleNamespace(platform_config=config)
    known.Clear()
    known.update(config["kubernetes"])
