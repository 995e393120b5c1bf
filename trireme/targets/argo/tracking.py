"""The way to MLflow for a pipeline's steps, where nobody else has opened a run for them.

See ``components.tracking.runs``: the first step opens the pipeline's run, each step its own.
"""

from collections.abc import Mapping
from contextlib import suppress

from hera.workflows import models

from trireme.graph.model import Parameter
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden
from trireme.kubernetes.resources import SECRETS
from trireme.targets.argo.expressions import Value, member, native, to_json
from trireme.tracking.environment import SECRET
from trireme.tracking.runs import PARAMETERS, PIPELINE, RUN, TEXTS


def add(
    templates: list[models.Template], pipeline: str, parameters: Mapping[str, Parameter]
) -> None:
    """Adds variables to all steps of a pipeline."""
    values = {name: Value(member("workflow.parameters", name)) for name in parameters}
    texts = [name for name, parameter in parameters.items() if parameter.type == "STRING"]
    variables = {
        PIPELINE: pipeline,
        RUN: "{{workflow.name}}",
        PARAMETERS: f"{{{{={to_json(native(values))}}}}}",
        TEXTS: " ".join(texts),
    }
    for template in templates:
        if template.container:
            template.container.env = (template.container.env or []) + [
                models.EnvVar(name=name, value=value) for name, value in variables.items()
            ]
            source = models.SecretEnvSource(name=SECRET, optional=True)
            template.container.env_from = [models.EnvFromSource(secret_ref=source)]


def lacking(cluster: Cluster) -> str:
    """Says why the runs of a namespace would not be recorded; empty where that is not known."""
    with suppress(Forbidden):
        if cluster.find(SECRETS, SECRET, cluster.namespace) is None:
            return f"the run is not recorded: {cluster.namespace} has no Secret {SECRET}"
    return ""
