"""A step on Kubeflow Pipelines where its MLflow plugin is off: it records by a Secret, as on Argo.

The Secret ``trireme-mlflow`` is mounted into every step, if it is there. What run it is of, the
first step reads in its Workflow, as the compiler of Kubeflow Pipelines 2.17 writes it:
https://github.com/kubeflow/pipelines/tree/2.17.0/backend/src/v2/compiler/argocompiler
"""

import json
import os
from typing import Any, NamedTuple

from trireme.credentials.secrets import MOUNTS
from trireme.errors import TriremeError, first_line
from trireme.files.home import TRACKER
from trireme.text.say import say
from trireme.tracking.environment import PLUGIN

MOUNT = MOUNTS / "mlflow"
"""Where steps have the Secret."""

_RUN_NAME = "pipelines.kubeflow.org/run_name"


class RunDescription(NamedTuple):
    """What a Workflow says of its run."""

    pipeline: str
    run: str
    parameters: dict[str, Any]


def load_secret() -> bool:
    """Loads the Secret into the environment; tells whether this step records by it."""
    if not (MOUNT / "MLFLOW_TRACKING_URI").is_file():
        return False
    if {TRACKER, PLUGIN, "MLFLOW_RUN_ID", "MLFLOW_TRACKING_URI"} & os.environ.keys():
        return False
    for file in MOUNT.iterdir():
        if file.is_file():
            os.environ.setdefault(file.name, file.read_text().strip())
    return True


def describe_run(pipeline: str) -> RunDescription:
    """Returns what this pod's Workflow says of the run; little, where it may not be read."""
    from trireme.kubernetes.connection import Cluster
    from trireme.kubernetes.owner import owners
    from trireme.kubernetes.resources import WORKFLOWS

    try:
        cluster = Cluster()
        (owner,) = owners(cluster)
        workflow = cluster.get(WORKFLOWS, owner["name"], cluster.namespace)
    except TriremeError as error:
        say(f"warning: MLflow did not get the run's parameters: {first_line(error)}")
        return RunDescription(pipeline, "", {})
    return parse_workflow(workflow, pipeline)


def parse_workflow(workflow: dict[str, Any], pipeline: str = "") -> RunDescription:
    """Returns what a Workflow says of its run."""
    metadata = workflow["metadata"]
    parameters: dict[str, Any] = {}
    for template in workflow["spec"].get("templates", []):
        args = template.get("container", {}).get("args", [])
        if "--pipeline_name" in args[:-1]:
            pipeline = args[args.index("--pipeline_name") + 1]
        for task in template.get("dag", {}).get("tasks", []):
            for argument in task.get("arguments", {}).get("parameters", []):
                if argument["name"] == "runtime-config":
                    parameters = json.loads(argument["value"]).get("parameterValues", {})
    name = (metadata.get("annotations") or {}).get(_RUN_NAME) or metadata["name"]
    return RunDescription(pipeline, name, parameters)
