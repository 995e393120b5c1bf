"""Try a run on Kubeflow Pipelines again, its last step included.

2.17 keeps each node of a Workflow that has succeeded (GenerateRetryExecution in
backend/src/common/util/workflow.go), but for the exit handler of the Workflow itself. An exit
handler of a pipeline is a hook of a task, though, so it would be taken for done; so did pipelines
end that Trireme compiled before it had ``graph.flattening``: no webhook, no clean-up, and the
record as the first attempt has left it. Its nodes are taken out of the Workflow once it runs again.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from trireme.errors import InputError, TriremeError, first_line
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import NotFound
from trireme.kubernetes.resources import PODS, WORKFLOWS
from trireme.kubernetes.step_pods import WORKFLOW, node_of
from trireme.targets import workspaces
from trireme.targets.kubeflow import runs
from trireme.targets.kubeflow.connection import Connection
from trireme.targets.kubeflow.logs import RUN
from trireme.targets.kubeflow.reading import Run

HOOK = ".onExit"
"""What the names of an exit handler's nodes have after that of its task."""

NOT_AGAIN = "its last step, which calls the webhook, does not run again"


def retry(connection: Connection, connect: Callable[[], Cluster], run: Run) -> str:
    """Has a run tried again; returns what a person should know of it, if there is anything."""
    run.check_resume()
    has_hooks = runs.has_hooks(connection, run)
    try:
        cluster = connect()
        workflows = cluster.items(WORKFLOWS, cluster.namespace, labelSelector=f"{RUN}={run.id}")
    except TriremeError as error:
        runs.retry(connection, run)
        return f"{NOT_AGAIN}: {first_line(error)}" if has_hooks else ""
    if not workflows:
        raise InputError(
            f"run {run.name}: cannot be resumed: its Workflow is gone from namespace "
            f"{cluster.namespace}, and its workspace with it; start a new run"
        )
    workflow = workflows[0]
    workspaces.check(cluster, workflow, run.name)
    runs.retry(connection, run)
    if not has_hooks:
        return ""
    if not workflow["status"].get("nodes"):  # Argo keeps those of a large workflow elsewhere
        return f"{NOT_AGAIN}: the Workflow is too large to be changed"
    try:
        _forget_hooks(cluster, workflow["metadata"]["name"])
    except TriremeError as error:
        return f"{NOT_AGAIN}: {first_line(error)}"
    return ""


def _forget_hooks(cluster: Cluster, workflow: str) -> None:
    """Takes the nodes of exit handlers out of a Workflow, and their pods, whose names recur."""
    # As the retry has left it: a node that it took out must not come back by a part of it.
    nodes = cluster.get(WORKFLOWS, workflow, cluster.namespace)["status"]["nodes"]
    for pod in cluster.items(PODS, cluster.namespace, labelSelector=f"{WORKFLOW}={workflow}"):
        if HOOK in node_of(pod):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            with suppress(NotFound):  # gone by itself
                cluster.delete(PODS, name, cluster.namespace, uid)
    hooks = {key for key, node in nodes.items() if HOOK in node["name"]}
    changed: dict[str, Any] = dict.fromkeys(hooks)
    for key, node in nodes.items():
        for field in ("children", "outboundNodes"):
            before = node.get(field) or []
            if key not in hooks and not hooks.isdisjoint(before):
                children = [child for child in before if child not in hooks]
                changed.setdefault(key, {})[field] = children
    cluster.patch(WORKFLOWS, workflow, cluster.namespace, {"status": {"nodes": changed}})
