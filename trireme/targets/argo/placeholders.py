"""Placeholders of kfp that every task may have, as they stand on Argo."""

from trireme.targets.argo.expressions import Constant, Value, name_value

WORKSPACE = "/kfp-workspace"
"""Where every step finds the run workspace; the name is kfp's."""

ARTIFACTS = f"{WORKSPACE}/artifacts"
"""Where the run's artifacts are."""

DIRECTORY = "artifact-directory"
"""The input of a template in a loop that keeps the files of its rounds apart."""

IN_LOOP = f"{{{{inputs.parameters.{DIRECTORY}}}}}"

_NAMES = {
    ".pipeline_job_name": "workflow.name",
    ".pipeline_job_resource_name": "workflow.name",
    ".pipeline_job_uuid": "workflow.uid",
    ".pipeline_job_create_time_utc": "workflow.creationTimestamp.RFC3339",
    ".pipeline_job_schedule_time_utc": "workflow.creationTimestamp.RFC3339",
    ".pipeline_task_uuid": "pod.name",
}
"""What Argo calls what has a name of its own."""


def everywhere(inside: str, task: str) -> Value | None:
    """Returns what the inside of a placeholder stands for, if no inputs and outputs matter."""
    if inside in _NAMES:
        return name_value(_NAMES[inside])
    known = {".workspace_path": WORKSPACE, ".pipeline_root": ARTIFACTS, ".pipeline_task_name": task}
    return Constant(value=known[inside]) if inside in known else None
