"""Read what kfp has compiled into the model, checked: ``of_pipeline``, ``of_yaml``, ``of_json``.

All of it goes through kfp's own messages, so that a field nobody here has heard of is an error and
never overlooked: https://github.com/kubeflow/pipelines/blob/2.17.0/api/v2alpha1/pipeline_spec.proto
and https://github.com/kubeflow/pipelines/blob/2.17.0/kubernetes_platform/proto/kubernetes_executor_config.proto
"""

import json
import re
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2
from kfp.pipeline_spec import pipeline_spec_pb2

from trireme.errors import InputError
from trireme.graph.checking import check, check_size
from trireme.graph.graph import KUBERNETES, Graph, by_names
from trireme.graph.mending import mend
from trireme.graph.model import (
    ABSENT,
    Artifact,
    Component,
    Constant,
    Group,
    Importer,
    Input,
    InputOf,
    Loop,
    OutputOf,
    Parameter,
    Retry,
    Source,
    StatusOf,
    Step,
    StepPath,
    Task,
    leaves,
)
from trireme.text.json_values import whole

AFTER_FAILURE = "ALL_UPSTREAM_TASKS_COMPLETED"

_CONTAINER = ("image", "command", "args", "env", "resources")

_MEMBER = re.compile(r'parseJson\(string_value\)\["(.+)"\]')


def of_pipeline(pipeline: Any) -> Graph:
    """Returns the graph of a function with ``@dsl.pipeline``."""
    document = json_format.MessageToDict(pipeline.pipeline_spec)
    platforms = json_format.MessageToDict(pipeline.platform_spec).get("platforms", {})
    return of_json(document, platforms, [*(pipeline.component_spec.inputs or {})])


def of_yaml(text: str) -> Graph:
    """Returns the graph of YAML, or JSON, that kfp has compiled.

    Raises:
        ValueError, KeyError, TypeError: It is something else, or has what nobody here knows.
        InputError: Its tasks lack something.
    """
    documents = list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    document = documents[0]
    if not isinstance(document, dict) or "root" not in document or "dag" not in document["root"]:
        if isinstance(document, dict) and "root" in document:
            raise ValueError("it is a component, not a pipeline")
        raise KeyError("pipelineInfo")
    platforms = documents[1]["platforms"] if len(documents) > 1 else {}
    names = document["root"].get("inputDefinitions", {}).get("parameters", {})
    return of_json(document, platforms, [*names])


def of_json(
    document: dict[str, Any],
    platforms: dict[str, Any] | None = None,
    order: list[str] | None = None,
) -> Graph:
    """Returns the graph of kfp's ``PipelineSpec`` as JSON.

    Args:
        platforms: The ``platforms`` of kfp's ``PlatformSpec``.
        order: The parameters of the pipeline in the order in which they are to be shown.
    """
    document = _as(pipeline_spec_pb2.PipelineSpec, document)
    executors = document["deploymentSpec"].get("executors", {})
    read_as = pipeline_spec_pb2.PipelineDeploymentConfig.ExecutorSpec
    document["deploymentSpec"]["executors"] = {
        label: _as(read_as, executor) for label, executor in executors.items()
    }
    platforms = dict(platforms or {})
    if KUBERNETES in platforms:
        kubernetes = platforms[KUBERNETES]
        read_as = kubernetes_executor_config_pb2.KubernetesExecutorConfig
        configs = kubernetes.get("deploymentSpec", {}).get("executors", {})
        pods = {label: _as(read_as, config) for label, config in configs.items()}
        platforms[KUBERNETES] = kubernetes | (
            {"deploymentSpec": {"executors": pods}} if "deploymentSpec" in kubernetes else {}
        )
    check_size(document)
    document = mend(document)
    graph = Graph(document, platforms, tuple(order or ()), _Reader(document, platforms).root())
    check(graph)
    return graph


def paths_of(document: dict[str, Any]) -> dict[str, StepPath]:
    """Returns the paths to all steps of a pipeline that somebody else runs; none if it is odd.

    Args:
        document: kfp's ``PipelineSpec`` as JSON.
    """
    try:
        return by_names([path for path, _ in leaves(_Reader(document, {}).root())])
    except (InputError, AttributeError, KeyError, TypeError, ValueError):
        return {}


def source_of(spec: dict[str, Any]) -> Source:
    """Returns where kfp's ``InputParameterSpec`` or ``InputArtifactSpec`` takes a value from."""
    for kind in ("Parameter", "Artifact"):
        if name := spec.get(f"componentInput{kind}"):
            return InputOf(name)
        if output := spec.get(f"taskOutput{kind}"):
            return OutputOf(output["producerTask"], output[f"output{kind}Key"])
    if "taskFinalStatus" in spec:
        return StatusOf(spec["taskFinalStatus"]["producerTask"])
    value = spec["runtimeValue"]
    if "constantValue" in value:  # as kfp wrote it before 2.0
        (constant,) = value["constantValue"].values()
        return Constant(constant)
    return Constant(value.get("constant"))


class _Reader:
    """Reads the components of a pipeline, each once."""

    def __init__(self, document: dict[str, Any], platforms: dict[str, Any]) -> None:
        self._document = document
        self._executors = document["deploymentSpec"]["executors"]
        deployment = platforms.get(KUBERNETES, {}).get("deploymentSpec", {})
        self._pods = deployment.get("executors", {})
        self._components: dict[str, Component] = {}

    def root(self) -> Group:
        """Returns the pipeline itself."""
        name = self._document["pipelineInfo"]["name"]
        root = self._component(name, self._document["root"])
        assert isinstance(root, Group)
        return root

    def _component(self, name: str, spec: dict[str, Any]) -> Component:
        inputs, outputs = (
            _definitions(spec.get(f"{side}Definitions", {})) for side in ("input", "output")
        )
        if "dag" in spec:
            dag = spec["dag"]
            tasks = {key: self._task(key, task) for key, task in dag.get("tasks", {}).items()}
            return Group(name, inputs, outputs, tasks=tasks, given=_given(dag.get("outputs", {})))
        label = spec["executorLabel"]
        executor = self._executors[label]
        if "importer" in executor:
            return _importer(name, inputs, outputs, label, executor["importer"])
        if "container" not in executor:
            kinds = " and ".join(executor) or "nothing"
            raise ValueError(f"its executor {label!r} is {kinds}, which Trireme does not run")
        container = executor["container"]
        if unknown := sorted(container.keys() - _CONTAINER):
            raise ValueError(
                f"its executor {label!r} has {unknown[0]}, which Trireme does not know"
            )
        return Step(
            name,
            inputs,
            outputs,
            label,
            image=container["image"],
            command=tuple(container.get("command", ())),
            arguments=tuple(container.get("args", ())),
            variables={
                variable["name"]: variable.get("value", "") for variable in container.get("env", ())
            },
            resources=container.get("resources", {}),
            pod=self._pods.get(label, {}),
            passthroughs={
                passthrough["field"]: passthrough.get("applyToTask", False)
                for passthrough in spec.get("taskConfigPassthroughs", ())
            },
        )

    def _task(self, key: str, spec: dict[str, Any]) -> Task:
        name = spec["componentRef"]["name"]
        if name not in self._components:
            read = self._component(name, self._document["components"][name])
            self._components[name] = read
        component = self._components[name]
        inputs = {}
        for kind in ("parameters", "artifacts"):
            for input_name, source in spec.get("inputs", {}).get(kind, {}).items():
                inputs[input_name] = _input(
                    input_name, source, component, is_artifact=kind == "artifacts"
                )
        sources = [task_input.source for task_input in inputs.values()]
        after = {source.task for source in sources if isinstance(source, OutputOf | StatusOf)}
        trigger = spec.get("triggerPolicy", {})
        return Task(
            key,
            spec.get("taskInfo", {}).get("name", key),
            component,
            inputs,
            tuple(sorted(after.union(spec.get("dependentTasks", ())))),
            trigger.get("condition", ""),
            trigger.get("strategy") == AFTER_FAILURE,
            _loop(spec),
            _retry(spec.get("retryPolicy", {})),
            spec.get("cachingOptions", {}),
        )


def _definitions(described: dict[str, Any]) -> dict[str, Parameter | Artifact]:
    parameters = (
        Parameter(
            name,
            spec.get("parameterType", ""),
            plain(spec["defaultValue"], spec.get("parameterType", ""))
            if "defaultValue" in spec
            else ABSENT,
            spec.get("isOptional", False),
            spec.get("description", ""),
            tuple(
                plain(literal, spec.get("parameterType", ""))
                for literal in spec.get("literals", ())
            ),
        )
        for name, spec in described.get("parameters", {}).items()
    )
    artifacts = (
        Artifact(
            name,
            spec.get("artifactType", {}),
            spec.get("isArtifactList", False),
            spec.get("isOptional", False),
            spec.get("description", ""),
        )
        for name, spec in described.get("artifacts", {}).items()
    )
    every: list[Parameter | Artifact] = [*parameters, *artifacts]
    return {definition.name: definition for definition in every}


def _input(name: str, spec: dict[str, Any], component: Component, *, is_artifact: bool) -> Input:
    source = source_of(spec)
    definition = component.inputs.get(name)
    if isinstance(source, Constant):
        kind = definition.type if isinstance(definition, Parameter) else ""
        source = Constant(plain(source.value, kind))
    selector = spec.get("parameterExpressionSelector", "")
    match = _MEMBER.fullmatch(selector)
    if selector and not match:
        raise ValueError(f"the selection {selector!r} of the input {name} cannot be read")
    return Input(name, source, is_artifact, match[1] if match else "")


def _given(outputs: dict[str, Any]) -> dict[str, tuple[OutputOf, ...]]:
    """Returns where the outputs of a group come from."""
    sources_of = {}
    for name, source in outputs.get("parameters", {}).items():
        selector = source.get("valueFromParameter")
        chosen = [selector] if selector else source["valueFromOneof"]["parameterSelectors"]
        sources_of[name] = [
            OutputOf(selector["producerSubtask"], selector["outputParameterKey"])
            for selector in chosen
        ]
    for name, source in outputs.get("artifacts", {}).items():
        chosen = source["artifactSelectors"]
        sources_of[name] = [
            OutputOf(selector["producerSubtask"], selector["outputArtifactKey"])
            for selector in chosen
        ]
    return {name: tuple(sources) for name, sources in sources_of.items()}


def _importer(name: str, inputs: Any, outputs: Any, label: str, spec: dict[str, Any]) -> Importer:
    uri = spec["artifactUri"]
    return Importer(
        name,
        inputs,
        outputs,
        label,
        InputOf(uri["runtimeParameter"])
        if "runtimeParameter" in uri
        else Constant(uri["constant"]),
        spec.get("typeSchema", {}),
        whole(spec.get("metadata", {})),
        spec.get("downloadToWorkspace", False),
    )


def _loop(spec: dict[str, Any]) -> Loop | None:
    limit = spec.get("iteratorPolicy", {}).get("parallelismLimit", 0)
    if iterator := spec.get("artifactIterator"):
        return Loop(iterator["itemInput"], InputOf(iterator["items"]["inputArtifact"]), True, limit)
    if iterator := spec.get("parameterIterator"):
        items = iterator["items"]
        source = (
            Constant(json.loads(items["raw"]))
            if "raw" in items
            else InputOf(items["inputParameter"])
        )
        return Loop(iterator["itemInput"], source, False, limit)
    return None


def _retry(spec: dict[str, Any]) -> Retry | None:
    if not spec.get("maxRetryCount"):
        return None
    seconds = (
        float(spec.get(f"backoff{name}", "0s").removesuffix("s"))
        for name in ("Duration", "MaxDuration")
    )
    delay, within = seconds
    return Retry(spec["maxRetryCount"], delay, spec.get("backoffFactor", 1.0), within)


def plain(value: Any, kind: str) -> Any:
    """Returns a constant as it was meant: kfp writes whole numbers as 1.0."""
    if kind in ("STRING", "NUMBER_DOUBLE") and not isinstance(value, dict | list):
        return value
    return whole(value)


def _as(message: Any, content: dict[str, Any]) -> dict[str, Any]:
    try:
        return _sorted(json_format.MessageToDict(json_format.ParseDict(content, message())))
    except json_format.ParseError as error:
        raise ValueError(str(error)) from None


def _sorted(read: Any) -> Any:
    """Returns what was read with its keys in order, for which a message has none."""
    if isinstance(read, dict):
        return {key: _sorted(read[key]) for key in sorted(read)}
    return [_sorted(item) for item in read] if isinstance(read, list) else read
