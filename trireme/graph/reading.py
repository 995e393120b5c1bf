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


def source_of(given: dict[str, Any]) -> Source:
    """Returns where kfp's ``InputParameterSpec`` or ``InputArtifactSpec`` takes a value from."""
    for kind in ("Parameter", "Artifact"):
        if name := given.get(f"componentInput{kind}"):
            return InputOf(name)
        if wanted := given.get(f"taskOutput{kind}"):
            return OutputOf(wanted["producerTask"], wanted[f"output{kind}Key"])
    if "taskFinalStatus" in given:
        return StatusOf(given["taskFinalStatus"]["producerTask"])
    value = given["runtimeValue"]
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

    def _component(self, name: str, given: dict[str, Any]) -> Component:
        inputs, outputs = (
            _definitions(given.get(f"{side}Definitions", {})) for side in ("input", "output")
        )
        if "dag" in given:
            dag = given["dag"]
            tasks = {key: self._task(key, task) for key, task in dag.get("tasks", {}).items()}
            return Group(name, inputs, outputs, tasks=tasks, given=_given(dag.get("outputs", {})))
        label = given["executorLabel"]
        executor = self._executors[label]
        if "importer" in executor:
            return _importer(name, inputs, outputs, label, executor["importer"])
        if "container" not in executor:
            what = " and ".join(executor) or "nothing"
            raise ValueError(f"its executor {label!r} is {what}, which Trireme does not run")
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
            variables={each["name"]: each.get("value", "") for each in container.get("env", ())},
            resources=container.get("resources", {}),
            pod=self._pods.get(label, {}),
            passthroughs={
                each["field"]: each.get("applyToTask", False)
                for each in given.get("taskConfigPassthroughs", ())
            },
        )

    def _task(self, key: str, given: dict[str, Any]) -> Task:
        name = given["componentRef"]["name"]
        if name not in self._components:
            made = self._component(name, self._document["components"][name])
            self._components[name] = made
        component = self._components[name]
        inputs = {}
        for kind in ("parameters", "artifacts"):
            for one, source in given.get("inputs", {}).get(kind, {}).items():
                inputs[one] = _input(one, source, component, is_artifact=kind == "artifacts")
        sources = [one.source for one in inputs.values()]
        after = {one.task for one in sources if isinstance(one, OutputOf | StatusOf)}
        trigger = given.get("triggerPolicy", {})
        return Task(
            key,
            given.get("taskInfo", {}).get("name", key),
            component,
            inputs,
            tuple(sorted(after.union(given.get("dependentTasks", ())))),
            trigger.get("condition", ""),
            trigger.get("strategy") == AFTER_FAILURE,
            _loop(given),
            _retry(given.get("retryPolicy", {})),
            given.get("cachingOptions", {}),
        )


def _definitions(given: dict[str, Any]) -> dict[str, Parameter | Artifact]:
    parameters = (
        Parameter(
            name,
            spec.get("parameterType", ""),
            plain(spec["defaultValue"], spec.get("parameterType", ""))
            if "defaultValue" in spec
            else ABSENT,
            spec.get("isOptional", False),
            spec.get("description", ""),
            tuple(plain(each, spec.get("parameterType", "")) for each in spec.get("literals", ())),
        )
        for name, spec in given.get("parameters", {}).items()
    )
    artifacts = (
        Artifact(
            name,
            spec.get("artifactType", {}),
            spec.get("isArtifactList", False),
            spec.get("isOptional", False),
            spec.get("description", ""),
        )
        for name, spec in given.get("artifacts", {}).items()
    )
    every: list[Parameter | Artifact] = [*parameters, *artifacts]
    return {one.name: one for one in every}


def _input(name: str, given: dict[str, Any], component: Component, *, is_artifact: bool) -> Input:
    source = source_of(given)
    definition = component.inputs.get(name)
    if isinstance(source, Constant):
        kind = definition.type if isinstance(definition, Parameter) else ""
        source = Constant(plain(source.value, kind))
    selector = given.get("parameterExpressionSelector", "")
    match = _MEMBER.fullmatch(selector)
    if selector and not match:
        raise ValueError(f"the selection {selector!r} of the input {name} cannot be read")
    return Input(name, source, is_artifact, match[1] if match else "")


def _given(outputs: dict[str, Any]) -> dict[str, tuple[OutputOf, ...]]:
    """Returns where the outputs of a group come from."""
    made = {}
    for name, source in outputs.get("parameters", {}).items():
        one = source.get("valueFromParameter")
        chosen = [one] if one else source["valueFromOneof"]["parameterSelectors"]
        made[name] = [
            OutputOf(each["producerSubtask"], each["outputParameterKey"]) for each in chosen
        ]
    for name, source in outputs.get("artifacts", {}).items():
        chosen = source["artifactSelectors"]
        made[name] = [
            OutputOf(each["producerSubtask"], each["outputArtifactKey"]) for each in chosen
        ]
    return {name: tuple(sources) for name, sources in made.items()}


def _importer(name: str, inputs: Any, outputs: Any, label: str, given: dict[str, Any]) -> Importer:
    uri = given["artifactUri"]
    return Importer(
        name,
        inputs,
        outputs,
        label,
        InputOf(uri["runtimeParameter"])
        if "runtimeParameter" in uri
        else Constant(uri["constant"]),
        given.get("typeSchema", {}),
        whole(given.get("metadata", {})),
        given.get("downloadToWorkspace", False),
    )


def _loop(given: dict[str, Any]) -> Loop | None:
    limit = given.get("iteratorPolicy", {}).get("parallelismLimit", 0)
    if iterator := given.get("artifactIterator"):
        return Loop(iterator["itemInput"], InputOf(iterator["items"]["inputArtifact"]), True, limit)
    if iterator := given.get("parameterIterator"):
        items = iterator["items"]
        source = (
            Constant(json.loads(items["raw"]))
            if "raw" in items
            else InputOf(items["inputParameter"])
        )
        return Loop(iterator["itemInput"], source, False, limit)
    return None


def _retry(given: dict[str, Any]) -> Retry | None:
    if not given.get("maxRetryCount"):
        return None
    seconds = (
        float(given.get(f"backoff{name}", "0s").removesuffix("s"))
        for name in ("Duration", "MaxDuration")
    )
    delay, within = seconds
    return Retry(given["maxRetryCount"], delay, given.get("backoffFactor", 1.0), within)


def plain(value: Any, kind: str) -> Any:
    """Returns a constant as it was meant: kfp writes whole numbers as 1.0."""
    if kind in ("STRING", "NUMBER_DOUBLE") and not isinstance(value, dict | list):
        return value
    return whole(value)


def _as(message: Any, given: dict[str, Any]) -> dict[str, Any]:
    try:
        return _sorted(json_format.MessageToDict(json_format.ParseDict(given, message())))
    except json_format.ParseError as error:
        raise ValueError(str(error)) from None


def _sorted(read: Any) -> Any:
    """Returns what was read with its keys in order, for which a message has none."""
    if isinstance(read, dict):
        return {key: _sorted(read[key]) for key in sorted(read)}
    return [_sorted(each) for each in read] if isinstance(read, list) else read
