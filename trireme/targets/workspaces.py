"""The run workspace of a workflow that is to be tried again."""

from contextlib import suppress
from typing import Any

from trireme.errors import InputError
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden
from trireme.kubernetes.resources import CLAIMS


def check(cluster: Cluster, workflow: dict[str, Any], run: str) -> None:
    """Refuses a run whose steps would look for what earlier ones have left, and not find it."""
    stored = (workflow.get("status") or {}).get("storedWorkflowTemplateSpec") or {}
    templates = workflow["spec"].get("volumeClaimTemplates") or stored.get("volumeClaimTemplates")
    for template in templates or []:
        name = f"{workflow['metadata']['name']}-{template['metadata']['name']}"
        with suppress(Forbidden):  # who may not look finds out from the steps
            if cluster.find(CLAIMS, name, cluster.namespace) is None:
                raise InputError(
                    f"run {run}: cannot be resumed: its workspace, the claim {name}, is gone; "
                    "start a new run"
                )
