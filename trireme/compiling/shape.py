"""The shape of a run on a cluster: what the pods of its steps get, and how large its volume is.

Training jobs have their own, in the parameter ``job``. What a pipeline says itself is replaced.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Self

from kfp import kubernetes
from pydantic import model_validator

from trireme.compiling.ir import configured
from trireme.errors import InputError
from trireme.graph.changing import Draft, set_variables
from trireme.job.fields import Toleration
from trireme.job.values import (
    AbsolutePath,
    Bytes,
    Cpu,
    Image,
    LabelKey,
    LabelValue,
    ObjectName,
    SecretKey,
    VariableName,
)
from trireme.pipeline.pipeline import Pipeline
from trireme.strict_model import StrictModel
from trireme.text import yaml_text

ALL = "*"
LONGEST_LABEL = 63  # letters of the name of a pod's volume


class Files(StrictModel):
    """The keys of a ConfigMap or a Secret as files."""

    mount: AbsolutePath
    """Their folder in the pod."""

    config_map: ObjectName | None = None
    secret: ObjectName | None = None

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.config_map is None) == (self.secret is None):
            raise ValueError("it needs one of config_map and secret")
        if "." in self.source or len(self.source) > LONGEST_LABEL:
            raise ValueError(
                f"{self.source} has dots or more than {LONGEST_LABEL} letters, which the name of a "
                "pod's volume may not have"
            )
        return self

    @property
    def source(self) -> str:
        """The name of the ConfigMap or Secret, which the volume of the pod gets."""
        return self.config_map or self.secret or ""


class StepShape(StrictModel):
    """What the pod of a step gets."""

    cpu: Cpu | None = None
    """CPUs, the request and the limit."""

    memory: Bytes | None = None
    """Memory, the request and the limit."""

    image: Image | None = None
    """Its image."""

    env: dict[VariableName, str] = {}
    """More environment variables."""

    secret_env: dict[VariableName, SecretKey] = {}
    """Likewise, from SECRET/KEY."""

    volumes: list[Files] = []
    """Files, such as the certificate of a CA."""

    node_selector: dict[LabelKey, LabelValue] = {}
    """Labels that its node has to have."""

    tolerations: list[Toleration] = []
    """Taints that its node may have."""

    @model_validator(mode="after")
    def _check_variables(self) -> Self:
        if twice := sorted(self.env.keys() & self.secret_env.keys()):
            raise ValueError(f"both env and secret_env have {twice[0]}")
        return self


class Shape(StrictModel):
    """The file of ``--shape``."""

    workspace: Bytes | None = None
    """The size of each run's workspace."""

    steps: dict[str, StepShape] = {}
    """By the names of steps; ``*`` is all of them, and goes first."""


def read(file: Path | None) -> Shape:
    """Returns what a YAML file says of runs; without one, nothing."""
    if file is None:
        return Shape()
    content = yaml_text.read(file, f"--shape {file}")
    if not isinstance(content, dict):
        raise InputError(f"--shape {file}: must be an object of {', '.join(Shape.model_fields)}")
    return Shape.read("shape", content)


def check_steps(shape: Shape, pipelines: list[Pipeline]) -> None:
    """Refuses a step that no pipeline has."""
    known = dict.fromkeys(
        path[-1].name for pipeline in pipelines for path, _ in pipeline.graph.steps
    )
    if unknown := [step for step in shape.steps if step not in (ALL, *known)]:
        raise InputError(
            f"shape.steps.{unknown[0]}: there is no such step; there are {', '.join(known)}"
        )
    for step in known:
        volumes = [files for step_shape in _of(step, shape) for files in step_shape.volumes]
        for names in ([volume.mount for volume in volumes], [volume.source for volume in volumes]):
            if twice := [name for name, times in Counter(names).items() if times > 1]:
                raise InputError(f"shape.steps.{step}.volumes: {twice[0]} is there twice")


def shaped(pipeline: Pipeline, shape: Shape) -> Pipeline:
    """Returns a pipeline with the shape, as far as it has the steps."""
    if not shape.model_fields_set:
        return pipeline

    def change(draft: Draft) -> None:
        if shape.workspace and draft.workspace is not None:
            draft.workspace["size"] = shape.workspace
        for step, label in draft.labels.items():
            for step_shape in _of(step, shape):
                _set_container(draft.container(label), step_shape)
                with configured(draft, label) as pod:
                    _set_pod(pod, step_shape)

    return pipeline.changed(change)


def _of(step: str, shape: Shape) -> Iterator[StepShape]:
    return (shape.steps[name] for name in (ALL, step) if name in shape.steps)


def _set_container(container: Any, shape: StepShape) -> None:
    amounts = {"Cpu": shape.cpu, "Memory": shape.memory}
    for resource, amount in amounts.items():
        if amount:
            resources = container.setdefault("resources", {})
            for side in ("Request", "Limit"):
                resources.pop(f"{resource.lower()}{side}", None)  # its older form
                resources[f"resource{resource}{side}"] = amount
    if shape.image:
        container["image"] = shape.image
    if shape.env or shape.secret_env:
        set_variables(container, shape.env, instead_of=shape.secret_env)


def _set_pod(task: Any, shape: StepShape) -> None:
    _remove_variables(task.platform_config["kubernetes"], {*shape.env, *shape.secret_env})
    for label, value in shape.node_selector.items():
        kubernetes.add_node_selector(task, label, value)
    for taint in shape.tolerations:
        kubernetes.add_toleration(
            task, taint.key, taint.operator, taint.value, taint.effect, taint.tolerationSeconds
        )
    for name, reference in shape.secret_env.items():
        secret, key = reference.split("/")
        kubernetes.use_secret_as_env(task, secret, {key: name})
    for files in shape.volumes:
        if files.secret:
            kubernetes.use_secret_as_volume(task, files.secret, files.mount)
        elif files.config_map:
            kubernetes.use_config_map_as_volume(task, files.config_map, files.mount)


def _remove_variables(pod: dict[str, Any], names: Collection[str]) -> None:
    """Takes from a pod the variables of other sources, which would win over what is set here."""
    for kind in ("secretAsEnv", "configMapAsEnv"):
        sources = pod.pop(kind, [])
        for source in sources:
            source["keyToEnv"] = [
                pair for pair in source["keyToEnv"] if pair["envVar"] not in names
            ]
        if remaining := [source for source in sources if source["keyToEnv"]]:
            pod[kind] = remaining
    fields = pod.pop("fieldPathAsEnv", [])
    if remaining := [field for field in fields if field["name"] not in names]:
        pod["fieldPathAsEnv"] = remaining
