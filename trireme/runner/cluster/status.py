"""The state of a training job, read from its conditions."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trireme.frameworks import FRAMEWORKS, kind_of
from trireme.frameworks.kinds import REPLICAS

CANCELLED = "trireme.dev/cancelled"
"""The annotation of a job that a person has cancelled."""


class State(StrEnum):
    """The state of a job; what an operator calls Complete or Succeeded is one of them."""

    CREATED = "created"
    SUSPENDED = "suspended"
    RUNNING = "running"
    RESTARTING = "restarting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DELETING = "deleting"

    @property
    def ended(self) -> bool:
        """Whether the job has come to its end by itself."""
        return self in (State.SUCCEEDED, State.FAILED)


@dataclass(frozen=True)
class Status:
    """The state of a job, and what its operator says of it."""

    state: State
    reason: str = ""
    message: str = ""


# Terminal ones first: conditions stay True side by side, in no particular order. Of the two
# the failure counts, so that no failed job passes for one that has succeeded.
_CONDITIONS = (
    ("Failed", State.FAILED),
    ("Succeeded", State.SUCCEEDED),
    ("Complete", State.SUCCEEDED),
    ("Suspended", State.SUSPENDED),
    ("Restarting", State.RESTARTING),
    ("Running", State.RUNNING),
    ("Created", State.CREATED),
)


def status_of(job: dict[str, Any]) -> Status:
    """Returns a job's status from all its conditions that are True."""
    metadata = job["metadata"]
    status = _from_conditions(job)
    if status.state.ended:
        return status
    if "deletionTimestamp" in metadata:
        return Status(State.DELETING, status.reason, status.message)
    if is_suspended(job):
        if CANCELLED in metadata.get("annotations", {}):
            return Status(State.CANCELLED)
        return Status(State.SUSPENDED, status.reason, status.message)
    return status


def is_suspended(job: dict[str, Any]) -> bool:
    """Tells whether a job's manifest says that it is to have no pods for now."""
    spec = job["spec"] if is_train_job(job) else job["spec"].get("runPolicy", {})
    return bool(spec.get("suspend"))


def is_train_job(job: dict[str, Any]) -> bool:
    """Tells whether a job is one of Trainer v2, whose roles are defined by a runtime."""
    return not kind_of(job).replicas


def expected_replicas(job: dict[str, Any]) -> int:
    """Returns how many replicas a job is to have; 0 where only the cluster's runtime knows."""
    return sum(_replica_counts(job).values())


def replica_names(job: dict[str, Any]) -> set[str]:
    """Returns the names of the replicas that a job is to have; of a TrainJob usual ones."""
    return {f"{role}-{index}" for role, n in _replica_counts(job).items() for index in range(n)}


def roles_of(job: dict[str, Any]) -> list[str]:
    """Returns what the JobSet of a TrainJob calls the job's roles, as far as it tells."""
    names = list(_replica_counts(job))
    for framework in FRAMEWORKS.values():
        if set(names) == {role.name for role in framework.roles}:
            return [framework.role(name).in_jobset for name in names]
    return names


def _replica_counts(job: dict[str, Any]) -> dict[str, int]:
    """Returns how many replicas a job's roles have, as far as it tells."""
    if not is_train_job(job):
        roles = job["spec"][kind_of(job).replicas]
        return {role.lower(): spec.get("replicas", 1) for role, spec in roles.items()}
    annotation = job["metadata"].get("annotations", {}).get(REPLICAS)
    if annotation:
        return json.loads(annotation)
    return {"node": int(job["spec"].get("trainer", {}).get("numNodes", 0))}


def _from_conditions(job: dict[str, Any]) -> Status:
    true = {
        condition["type"]: condition
        for condition in job.get("status", {}).get("conditions") or []
        if condition["status"] == "True"
    }
    for name, state in _CONDITIONS:
        if name in true:
            return Status(state, true[name].get("reason", ""), true[name].get("message", ""))
    return Status(State.RUNNING if _is_ready(job) else State.CREATED)


def _is_ready(job: dict[str, Any]) -> bool:
    """Tells whether all nodes of a TrainJob run, of which it has no condition."""
    jobs = job.get("status", {}).get("jobsStatus") or []
    return any(role_status.get("ready") and role_status.get("active") for role_status in jobs)
