"""Hand what is set on a pipeline's task on to the pods of the job that the task launches."""

import re
from pathlib import PurePosixPath
from typing import Any

from trireme.credentials.secrets import MOUNTS
from trireme.data.volumes import SHARED
from trireme.errors import InputError
from trireme.frameworks import IDLE, kind_of
from trireme.job.job import TrainingJob
from trireme.job.rules import GPU
from trireme.last_words import ENDS_RUN
from trireme.manifests.roles import roles
from trireme.text.say import say

_WEBHOOK = str(MOUNTS / "webhook")
"""Where a step has the webhook's Secret, which its job's programs have no use for."""

_CREDENTIAL = re.compile(r"\w://[^/\s?#]*@")


def with_gpus(job: TrainingJob, task: dict[str, Any]) -> TrainingJob:
    """Returns a job with the GPUs that are set on its task: its image goes by them."""
    resources = task.get("resources") or {}
    gpus = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}.get(GPU)
    declaring = (job, *job.replicas.values())
    if not gpus or any(part.gpu is not None or GPU in (part.devices or {}) for part in declaring):
        return job
    return TrainingJob.create(**job.model_dump(exclude_unset=True) | {"gpu": int(gpus)})


def pass_through(manifest: dict[str, Any], task: dict[str, Any]) -> None:
    """Adds a task's resources, volumes, variables and placement to the pods of a job.

    What the step ends its run with is its own.

    A variable that holds a credential, as in ``https://user:password@host``, is left out with a
    warning, because many can read the manifest.

    Args:
        task: The fields of kfp's ``dsl.TaskConfig``.
    """
    if not task.get("volumes"):
        raise InputError(
            "the training job's pods need the run workspace, and the task has no volume"
        )
    variables = _without_credentials(task.get("env") or [])
    mounts = [one for one in task.get("volume_mounts") or [] if one["mountPath"] != _WEBHOOK]
    mounted = {one["name"] for one in mounts}
    volumes = [one for one in task["volumes"] if one["name"] in mounted]
    if not kind_of(manifest).replicas and "runtime" not in manifest:
        trainer = manifest["spec"]["trainer"]
        if task.get("resources"):
            trainer["resourcesPerNode"] = _merge_resources(
                trainer["resourcesPerNode"], task["resources"]
            )
        trainer["env"] = _merge_variables(trainer["env"], variables)
    for role, pod in _pods(manifest):
        container = pod["containers"][0]
        if task.get("resources") and role not in IDLE and "resources" in container:
            container["resources"] = _merge_resources(container["resources"], task["resources"])
        pod["volumes"] = [*pod.get("volumes", []), *volumes]
        container["volumeMounts"] = [
            *container.get("volumeMounts", []),
            *map(_read_only_mount, mounts),
        ]
        if "env" in container:
            container["env"] = _merge_variables(container["env"], variables)
        pod["tolerations"] = [*pod.get("tolerations", []), *(task.get("tolerations") or [])]
        pod["nodeSelector"] = pod.get("nodeSelector", {}) | (task.get("node_selector") or {})
        if task.get("affinity"):
            pod["affinity"] = pod.get("affinity", {}) | task["affinity"]


def _pods(manifest: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns what the manifest says of the pods, with their role, each once."""
    if kind_of(manifest).replicas or "runtime" in manifest:
        return [(role.name.lower(), role.pod) for role in roles(manifest)]
    (patch,) = manifest["spec"]["runtimePatches"]
    # The same for all jobs of the runtime.
    job, *_ = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    return [(job["name"], job["template"]["spec"]["template"]["spec"])]


def _read_only_mount(mount: dict[str, Any]) -> dict[str, Any]:
    """Returns a mount through which a program cannot write to what other runs see."""
    is_shared = PurePosixPath(mount["mountPath"]).is_relative_to(SHARED)
    return mount | {"readOnly": True} if is_shared else mount


def _merge_resources(job: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    """Returns resources in which what the task asks for wins; either is the other's default."""
    limits, requests = task.get("limits") or {}, task.get("requests") or {}
    return {
        "requests": job["requests"] | limits | requests,
        "limits": job["limits"] | requests | limits,
    }


def _without_credentials(variables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    variables = [variable for variable in variables if variable["name"] != ENDS_RUN]
    passed_on = [
        variable for variable in variables if not _CREDENTIAL.search(variable.get("value") or "")
    ]
    left_out = [variable["name"] for variable in variables if variable not in passed_on]
    if left_out:
        say(
            f"warning: {', '.join(left_out)} of the task is not passed on to the job's pods, "
            "because its value holds a credential; give it to the job from a Secret, with "
            "secret_env"
        )
    return passed_on


def _merge_variables(job: list[dict[str, Any]], more: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns variables of both; the job's win, but for credentials that it may lack."""
    lacked = {variable["name"] for variable in job if _is_optional(variable)} & {
        variable["name"] for variable in more
    }
    remaining = [variable for variable in job if variable["name"] not in lacked]
    names = {variable["name"] for variable in remaining}
    return [*remaining, *(variable for variable in more if variable["name"] not in names)]


def _is_optional(variable: dict[str, Any]) -> bool:
    source = (variable.get("valueFrom") or {}).get("secretKeyRef") or {}
    return bool(source.get("optional"))
