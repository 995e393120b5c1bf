"""What a run on plain Argo needs besides its training job, and whether the cluster has it."""

import json
from dataclasses import replace

from hera.workflows import WorkflowTemplate

from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.errors import Refused
from trireme.components.kubernetes.resources import WORKFLOWS, Resource
from trireme.components.tracking.environment import SECRET
from trireme.components.training.cluster.checks import Finding, Verdict
from trireme.components.training.manifests.references import Needed
from trireme.pipelines.planning import Plan
from trireme.pipelines.targets.argo.workflows import TEMPLATES

TASK_RESULTS = Resource("argoproj.io", "v1alpha1", "workflowtaskresults")
"""In which Argo's own container of a step says what it has left."""


def on_argo(plan: Plan, service_account: str) -> Plan:
    """Returns a plan with what plain Argo needs besides.

    Args:
        plan: The plan of a pipeline.
        service_account: The service account of its pods.
    """
    return replace(
        plan,
        needed=[
            Needed("ServiceAccount", service_account),
            Needed("Secret", SECRET, optional=True),
            *plan.needed,
        ],
        rights=[
            *plan.rights,
            (TASK_RESULTS, "", "create"),
            (TASK_RESULTS, "", "patch"),
            (WORKFLOWS, "", "get"),
        ],
    )


def check(cluster: Cluster, template: WorkflowTemplate) -> Finding:
    """Checks that the API server would take a pipeline; nothing is made.

    Args:
        cluster: The cluster.
        template: The pipeline.
    """
    body = json.loads(json.dumps(template.to_dict()))
    try:
        cluster.apply(TEMPLATES, body, cluster.namespace, force="true", dryRun="All")
    except Refused as error:
        return Finding(Verdict.FAILED, str(error))
    return Finding(Verdict.OK, "the API server would take the WorkflowTemplate")
