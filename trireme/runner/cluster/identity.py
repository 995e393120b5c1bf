"""The identity of a pod: which replica of a training job it is."""

from datetime import timedelta
from typing import Any

from trireme.frameworks import KINDS
from trireme.frameworks.kinds import ROLE
from trireme.kubernetes.pods import moment

_TYPE = ("training.kubeflow.org/replica-type", "training.kubeflow.org/job-role")
_INDEX = "training.kubeflow.org/replica-index"
_JOBSET_TYPE = "jobset.sigs.k8s.io/replicatedjob-name"
_JOB_INDEX = "jobset.sigs.k8s.io/job-index"
_JOBSET_INDEX = "batch.kubernetes.io/job-completion-index"

_SKEW = timedelta(seconds=2)  # that the clocks of two API servers may differ by


def is_of(pod: dict[str, Any], job: dict[str, Any]) -> bool:
    """Tells whether a pod with a job's labels is of this very job, not of another of its name."""
    for owner in pod["metadata"].get("ownerReferences") or []:
        if owner["kind"] in KINDS:
            return bool(owner["uid"] == job["metadata"]["uid"])
    # What a batch Job has made names only that as its owner.
    pod_made, job_made = (moment(item["metadata"]["creationTimestamp"]) for item in (pod, job))
    return pod_made >= job_made - _SKEW


def replica_name(pod: dict[str, Any]) -> str:
    """Returns type and index of the replica that a pod is, as in ``worker-0``."""
    # The labels are those of the v1 operators (the pod of a batch Job has no index), and of JobSet
    # for a TrainJob; where its runtime is ours each replica is a Job.
    labels = pod["metadata"].get("labels", {})
    if ROLE in labels:
        return f"{labels[ROLE]}-{labels.get(_JOB_INDEX, '0')}"
    for label in _TYPE:
        if label in labels:
            return f"{labels[label].lower()}-{labels.get(_INDEX, '0')}"
    if _JOBSET_TYPE in labels:
        return f"{labels[_JOBSET_TYPE]}-{labels.get(_JOBSET_INDEX, '0')}"
    return pod["metadata"]["name"]


def main_container(pod: dict[str, Any], name: str) -> str:
    """Returns the container that trains: the one of that name, or else the first."""
    names = [container["name"] for container in pod["spec"]["containers"]]
    return name if name in names else names[0]
