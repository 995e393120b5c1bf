"""Read what kfp has compiled: a pipeline, and what it says of Kubernetes.

Both are read with kfp's own messages, so that a field nobody here has heard of is an error and
never overlooked: https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2
from kfp.pipeline_spec import pipeline_spec_pb2

from trireme.components.errors import InputError


class NotOnArgo(InputError):
    """A pipeline asks for what cannot be expressed on plain Argo; names the task and what it is."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what} cannot be expressed on Argo")


@dataclass(frozen=True)
class Compiled:
    """A compiled pipeline: kfp's ``PipelineSpec`` as JSON, and Kubernetes' part by executor."""

    pipeline: dict[str, Any]
    kubernetes: dict[str, dict[str, Any]]
    workspace: dict[str, Any] | None

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return str(self.pipeline["pipelineInfo"]["name"])

    @property
    def executors(self) -> dict[str, dict[str, Any]]:
        """How each component without tasks of its own is run, by its label."""
        return dict(self.pipeline["deploymentSpec"]["executors"])

    def component(self, task: dict[str, Any]) -> dict[str, Any]:
        """Returns the component that a task is of."""
        return dict(self.pipeline["components"][task["componentRef"]["name"]])


def read(file: Path) -> Compiled:
    """Reads the YAML that ``trireme compile``, or kfp, has written."""
    try:
        documents = list(yaml.safe_load_all(file.read_text()))
        spec = pipeline_spec_pb2.PipelineSpec()
        json_format.ParseDict(documents[0], spec)
        pipeline = _sorted(json_format.MessageToDict(spec))
        executors = pipeline["deploymentSpec"].get("executors", {})
        read_as = pipeline_spec_pb2.PipelineDeploymentConfig.ExecutorSpec
        pipeline["deploymentSpec"]["executors"] = {
            name: _read_as(read_as, executor) for name, executor in executors.items()
        }
        platform = documents[1]["platforms"] if len(documents) > 1 else {}
        for name in platform.keys() - {"kubernetes"}:
            raise NotOnArgo(f"platform {name}", "what it configures")
        platform = platform.get("kubernetes", {})
        read_as = kubernetes_executor_config_pb2.KubernetesExecutorConfig
        kubernetes = {
            name: _read_as(read_as, config)
            for name, config in platform.get("deploymentSpec", {}).get("executors", {}).items()
        }
        only({"deploymentSpec", "pipelineConfig"}, platform, "platform kubernetes")
        configured = platform.get("pipelineConfig", {})
        only({"workspace"}, configured, "the pipeline's configuration")
        return Compiled(pipeline, kubernetes, configured.get("workspace"))
    except (
        OSError,
        yaml.YAMLError,
        json_format.ParseError,
        KeyError,
        TypeError,
        IndexError,
    ) as error:
        raise InputError(f"{file}: is no compiled pipeline: {error}") from None


def only(known: Collection[str], given: dict[str, Any], where: str) -> None:
    """Refuses what is given and not known."""
    for name in given.keys() - set(known):
        raise NotOnArgo(where, name)


def _read_as(message: Any, given: dict[str, Any]) -> dict[str, Any]:
    return _sorted(json_format.MessageToDict(json_format.ParseDict(given, message())))


def _sorted(read: Any) -> Any:
    """Returns what was read with its keys in order, for which a message has none."""
    if isinstance(read, dict):
        return {key: _sorted(read[key]) for key in sorted(read)}
    return [_sorted(each) for each in read] if isinstance(read, list) else read


def whole(number: float) -> float | int:
    """Returns a number of kfp's, which writes whole ones as 1.0, as it was meant."""
    return int(number) if number == int(number) else number


def plain(value: Any, kind: str) -> Any:
    """Returns a constant as a step's parameter expects it: kfp writes whole numbers as 1.0."""
    if isinstance(value, dict):
        return {key: plain(each, kind) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each, kind) for each in value]
    if isinstance(value, float) and kind in ("NUMBER_INTEGER", "LIST", "STRUCT"):
        return whole(value)
    return value
