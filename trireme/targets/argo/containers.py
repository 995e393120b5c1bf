"""The template of a task that is a container: the same image and command as on Kubeflow."""

import hashlib
from typing import Any

from hera.workflows import models

from trireme.graph.placeholders import pieces
from trireme.kubernetes.owner import POD_NAME
from trireme.targets.argo import pod as pods
from trireme.targets.argo.expressions import (
    EXECUTOR_OUTPUT,
    NOTHING,
    document,
    is_known,
    manifest,
    word,
)
from trireme.targets.argo.placeholders import WORKSPACE
from trireme.targets.argo.steps import FILE, OUTPUTS, Container
from trireme.targets.argo.templates import declared, directory_input

CACHE, CACHED_FOR = "trireme-cache", "720h"
"""The ConfigMap that holds the outputs of steps with a cache key, and how long they count."""


def template(step: Container, name: str, pipeline: str) -> models.Template:
    """Returns the template of a step of a pipeline."""
    pod = pods.pod(step)
    _mount(pod, step)
    step.task_config = pods.handed_on(pod, step.step.passthroughs)
    command, args = step.words(step.step.command), step.words(step.step.arguments)
    env = [
        variable | {"value": word(variable["value"])} if "value" in variable else variable
        for variable in pod.shared["env"] or []
    ]
    if step.has_executor and not any(variable["name"] == POD_NAME for variable in env):
        # Of a pod with a longer name the host name is only the first 63 letters.
        field = {"fieldRef": {"fieldPath": "metadata.name"}}
        env = [*env, {"name": POD_NAME, "valueFrom": field}]
    if any(
        NOTHING in text
        for text in [*command, *args, *(variable.get("value", "") for variable in env)]
    ):
        env = [{"name": NOTHING, "value": ""}, *env]
    image = "".join(
        f"{{{{={step.placeholder(piece).native}}}}}" if is_placeholder else piece
        for is_placeholder, piece in pieces(step.step.image)
    )
    container: dict[str, Any] = {
        "name": "",
        "image": image,
        "command": command,
        "args": args,
        "env": env,
        "volumeMounts": pod.shared["volumeMounts"],
        "imagePullPolicy": pod.pull_policy,
        "securityContext": pod.security,
    }
    volumes = [
        volume for volume in pod.shared["volumes"] if volume["name"] != pods.WORKSPACE_VOLUME
    ]
    fields: dict[str, Any] = {
        "name": name,
        "inputs": _if_any({"parameters": _inputs(step)}),
        "outputs": _if_any({"parameters": _outputs(step)}),
        "volumes": volumes,
        "metadata": _if_any({"labels": pod.labels, "annotations": pod.annotations}),
        "activeDeadlineSeconds": pod.deadline,
        "memoize": _memoize(step, pipeline),
    }
    _place(pod, fields, container)
    fields["container"] = _if_any(container)
    return models.Template.model_validate(_if_any(manifest(fields)))


def _mount(pod: pods.Pod, step: Container) -> None:
    """Mounts what a step reads and writes."""
    if step.has_workspace or step.artifacts or step.output_artifacts:
        pod.add_workspace()
    if step.output_artifacts and not step.has_executor:
        # The kubelet makes the directory; kfp's executor would make it itself.
        mount = {"name": pods.WORKSPACE_VOLUME, "mountPath": step.root}
        sub_path = step.root.removeprefix(f"{WORKSPACE}/")
        pod.shared["volumeMounts"].append(mount | {"subPath": sub_path})
    if step.root == OUTPUTS and (step.has_executor or step.output_parameters):
        pod.add_volume("outputs", {"emptyDir": {}}, OUTPUTS)


def _place(pod: pods.Pod, fields: dict[str, Any], container: dict[str, Any]) -> None:
    """Says where a pod may run and what it gets; what is known at run time only, as a patch."""
    patch: dict[str, Any] = {}
    for key in ("tolerations", "nodeSelector", "affinity"):
        (fields if is_known(pod.shared[key]) else patch)[key] = pod.shared[key]
    resources = pod.shared["resources"]
    if is_known(resources):
        container["resources"] = resources
    else:
        patch["containers"] = [{"name": "main", "resources": resources}]
    if pod.pull_secrets:
        patch["imagePullSecrets"] = [{"name": secret} for secret in pod.pull_secrets]
    fields["podSpecPatch"] = document(patch) if patch else None


def _inputs(step: Container) -> list[models.Parameter]:
    values, specs = step.given | step.more, step.step.inputs
    return [
        declared(key, specs.get(key), has_default=key not in values) for key in step.input_names()
    ] + directory_input(step.directory)


def _outputs(step: Container) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    if step.has_executor and (step.output_parameters or step.output_artifacts):
        parameters.append({"name": EXECUTOR_OUTPUT, "valueFrom": {"path": f"{step.root}/{FILE}"}})
    for key, spec in step.output_parameters.items():
        if step.has_executor and not step.writes_files:
            continue
        source = {"path": f"{step.root}/{key}"}
        if step.has_executor:
            source["default"] = "" if spec.type == "STRING" else "null"
        parameters.append({"name": key, "valueFrom": source})
    return parameters


def _memoize(step: Container, pipeline: str) -> dict[str, Any] | None:
    """Returns how Argo remembers the outputs of a step that has a ``cache_key`` and no files.

    Files go with the run. Others are not remembered, though kfp asks for that by default: Argo
    keeps what it remembers in a ConfigMap, never takes anything out of it, and fails each step
    whose outputs have no room left in it.
    """
    caching = step.call.task.caching
    if not caching.get("enableCache") or not caching.get("cacheKey") or not step.output_parameters:
        return None
    if step.artifacts or step.output_artifacts or step.has_workspace:
        return None
    # Of letters and digits alone, which is what Argo takes; and as on Kubeflow, of the pipeline.
    key = hashlib.sha256(f"{pipeline}/{caching['cacheKey']}".encode()).hexdigest()
    return {
        "key": key,
        "maxAge": CACHED_FOR,
        "cache": {"configMap": {"name": CACHE}},
    }


def _if_any(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in (None, [], {}, "")}
