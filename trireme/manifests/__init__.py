"""Manifests: a training job as the Kubernetes object that an operator takes."""

from typing import Any

import yaml

from trireme.errors import InputError
from trireme.frameworks import of_kind
from trireme.frameworks.kinds import FRAMEWORK, objects
from trireme.job.job import TrainingJob
from trireme.manifests import pod
from trireme.manifests.time_limit import set_time_limit
from trireme.manifests.trainjob import trainjob

OPERATORS = ("training-operator", "trainer")
"""The operators that manifests are made for: v1 (with MPIJob from the MPI operator) and v2."""


def default_operator(job: TrainingJob) -> str:
    """Returns the operator that a manifest is made for where no cluster is asked what it has."""
    if job.operator != "auto":
        return job.operator
    return "training-operator" if why_no_trainjob(job) else "trainer"


def why_no_trainjob(job: TrainingJob) -> str:
    """Says what a job asks for that no TrainJob has; empty: it can become one."""
    try:
        trainjob(job)
    except InputError as error:
        return str(error)
    return ""


def render(job: TrainingJob, operator: str = "training-operator") -> dict[str, Any]:
    """Returns the manifest of a training job.

    Args:
        operator: One of ``OPERATORS``: ``training-operator`` for the kind of its framework
            (training operator v1.9, or MPI operator v2beta1), ``trainer`` for a TrainJob
            (Kubeflow Trainer v2). The job's own ``operator`` is for those who ask a cluster first.

    Raises:
        InputError: The operator has nothing for what the job asks for.
    """
    if operator not in OPERATORS:
        raise InputError(f"operator {operator!r}: must be one of {', '.join(OPERATORS)}")
    if job.runtime and operator != "trainer":
        raise InputError("runtime: only a TrainJob has one; give operator trainer, or leave it out")
    manifest = trainjob(job) if operator == "trainer" else _of_kind(job)
    if job.time_limit:
        set_time_limit(manifest, job.time_limit)
    return manifest


def _of_kind(job: TrainingJob) -> dict[str, Any]:
    """Returns the object of the kind that the job's framework has."""
    plugin, kind = job.plugin, job.plugin.kind
    variables = [entry["name"] for entry in pod.environment(job)]
    replicas = {}
    for role, replica in job.roles.items():
        template = pod.template(job, role, kind.container, plugin.command(job, role, variables))
        replicas[plugin.role(role).title] = {
            "replicas": replica.count,
            "restartPolicy": replica.restart_policy,
            "template": template,
        }
    metadata = pod.metadata(job)
    if of_kind(kind.name) is not plugin:
        metadata["annotations"] = metadata.get("annotations", {}) | {FRAMEWORK: plugin.name}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": metadata,
        "spec": plugin.spec(job, pod.run_policy(job), replicas),
    }


def to_yaml(manifest: dict[str, Any]) -> str:
    """Returns a manifest as YAML that a person can read: fields in their order, no anchors."""
    return yaml.dump_all(objects(manifest), Dumper=_Plain, sort_keys=False, width=1000)


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


# Said here, because Hera changes it for every dumper that says nothing.
_Plain.add_representer(str, yaml.SafeDumper.represent_str)
