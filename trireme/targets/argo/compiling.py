"""Compile pipelines for plain Argo, to WorkflowTemplates."""

import hashlib
from pathlib import Path
from typing import Any

from hera.workflows import WorkflowTemplate, models

from trireme.errors import InputError
from trireme.files.whole_file import linked, write_whole
from trireme.graph.graph import KUBERNETES, Graph
from trireme.graph.model import ABSENT, Artifact, Parameter
from trireme.images import USER
from trireme.pipeline.pipeline import Pipeline
from trireme.targets.argo import tracking
from trireme.targets.argo.dags import Dag
from trireme.targets.argo.expressions import Value, encoded, json_value, member, shown, to_json
from trireme.targets.argo.pod import WORKSPACE_VOLUME
from trireme.targets.argo.refusals import NotOnArgo, only
from trireme.targets.argo.templates import Templates, call_arguments

ENTRYPOINT = "main"
SERVICE_ACCOUNT = "trireme"
PIPELINE, VERSION = "trireme/pipeline", "trireme/version"
"""Labels of a WorkflowTemplate and of the Workflows made from it."""

KEPT_FOR = 7 * 24 * 60 * 60
"""Seconds for which a run that has ended is kept."""

PODS_KEPT_FOR = "24h"
"""For how long the logs of a run that has succeeded can be read: its volume goes with its pods."""

LONGEST_NAME = 63  # letters of the name of a WorkflowTemplate, which is a label, too

SIZE, ACCESS = "10Gi", ["ReadWriteMany"]
"""The run workspace of a pipeline that configures none, and has artifacts."""


def compiled(pipeline: Pipeline, service_account: str) -> WorkflowTemplate:
    """Returns a pipeline as a WorkflowTemplate whose pods run as a service account."""
    return workflow_template(pipeline.graph, service_account, is_ours=True)


def write(pipeline: Pipeline, directory: Path, service_account: str) -> Path:
    """Writes a pipeline's WorkflowTemplate; returns the file, named after the pipeline."""
    file = directory / f"{pipeline.name}.yaml"
    text = compiled(pipeline, service_account).to_yaml()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_whole(linked(file), text)
    except OSError as error:
        raise InputError(f"--output {directory}: cannot be written: {error}") from None
    return file


def workflow_template(
    graph: Graph, service_account: str = SERVICE_ACCOUNT, *, is_ours: bool = False
) -> WorkflowTemplate:
    """Returns a pipeline as a WorkflowTemplate; our steps record what they do in MLflow."""
    if len(graph.name) > LONGEST_NAME:
        raise NotOnArgo(f"pipeline {graph.name}", f"a name of more than {LONGEST_NAME} letters")
    _check_platforms(graph)
    templates = Templates(graph)
    for name, artifact in graph.root.input_artifacts.items():
        if not artifact.is_optional:
            raise NotOnArgo(f"input {name}", "an artifact that a run is given")
    parameters = graph.root.input_parameters
    absent = {
        name
        for name, spec in graph.root.inputs.items()
        if isinstance(spec, Artifact) or (spec.default is ABSENT and spec.is_optional)
    }
    dag = Dag(templates, graph.root, "", absent)
    templates.name(ENTRYPOINT)
    name = templates.name(graph.name)
    dag.template(name)
    values = {dag.inputs[key]: _given(parameter) for key, parameter in parameters.items()}
    task = models.DAGTask(name=name, template=name)
    if values:
        task.arguments = models.Arguments(parameters=call_arguments(values))
    entry = models.Template(name=ENTRYPOINT, dag=models.DAGTemplate(tasks=[task]))
    if is_ours:
        tracking.add(templates.made, graph.name, parameters)
    template = WorkflowTemplate(
        name=graph.name,
        labels={PIPELINE: graph.name},
        annotations=_annotations(graph),
        workflow_metadata=models.WorkflowMetadata(labels={PIPELINE: graph.name}),
        entrypoint=ENTRYPOINT,
        arguments=[_parameter(parameter) for parameter in parameters.values()] or None,
        service_account_name=service_account,
        # The user of Trireme's images writes to volumes that belong to root, too.
        security_context=models.PodSecurityContext(
            fs_group=USER, fs_group_change_policy="OnRootMismatch"
        ),
        volume_claim_templates=_workspace(graph, templates.made),
        ttl_strategy=models.TTLStrategy(seconds_after_completion=KEPT_FOR),
        pod_gc=models.PodGC(strategy="OnWorkflowSuccess", delete_delay_duration=PODS_KEPT_FOR),
        templates=[entry, *templates.made],
    )
    version = hashlib.sha256(template.to_yaml().encode()).hexdigest()[:12]
    template.labels = {PIPELINE: graph.name, VERSION: version}
    template.workflow_metadata = models.WorkflowMetadata(labels=template.labels)
    return template


def _check_platforms(graph: Graph) -> None:
    """Refuses what is configured of the whole and is not known."""
    for name in graph.platforms.keys() - {KUBERNETES}:
        raise NotOnArgo(f"platform {name}", "what it configures")
    configured = graph.platforms.get(KUBERNETES, {})
    only({"deploymentSpec", "pipelineConfig"}, configured, "platform kubernetes")
    only({"workspace"}, configured.get("pipelineConfig", {}), "the pipeline's configuration")


def _annotations(graph: Graph) -> dict[str, str] | None:
    annotations = {
        "workflows.argoproj.io/title": graph.display_name,
        "workflows.argoproj.io/description": graph.description,
    }
    return {key: shown(value) for key, value in annotations.items() if value} or None


def _parameter(parameter: Parameter) -> models.Parameter:
    """Returns a parameter of a run, as people fill it in: text as it is, anything else as JSON."""
    value = None
    if parameter.is_optional or parameter.default is not ABSENT:
        value = as_given(None if parameter.default is ABSENT else parameter.default, parameter.type)
    choices = [as_given(choice, parameter.type) for choice in parameter.choices]
    if parameter.type == "BOOLEAN":
        choices = ["true", "false"]
    about = shown(parameter.description) if parameter.description else None
    return models.Parameter(
        name=parameter.name, value=value, enum=choices or None, description=about
    )


def as_given(value: Any, kind: str) -> str:
    """Returns a parameter's value as a run is given it."""
    if kind == "STRING" and isinstance(value, str):
        is_plain = value.isprintable() and "{{" not in value and not value.startswith('"')
        return value if is_plain and value != "null" else encoded(value)
    return encoded(value)


def _given(parameter: Parameter) -> Value:
    """Returns what a run is given as JSON: text is that already where it begins with a quote."""
    value = member("workflow.parameters", parameter.name)
    if parameter.type != "STRING":
        return json_value(value)
    is_json = f"{value} startsWith '\"'"
    if parameter.is_optional and parameter.default is ABSENT:
        is_json += f" || {value} == 'null'"
    return Value("", f"({is_json}) ? {value} : ({to_json(value)})")


def _workspace(
    graph: Graph, templates: list[models.Template]
) -> list[models.PersistentVolumeClaim] | None:
    """Returns the claim of the run workspace, if any step sees it."""
    mounts = (
        mount
        for template in templates
        if template.container
        for mount in template.container.volume_mounts or []
    )
    if not any(mount.name == WORKSPACE_VOLUME for mount in mounts):
        return None
    config = graph.workspace or {}
    only(("size", "kubernetes"), config, "the workspace")
    patch = config.get("kubernetes", {}).get("pvcSpecPatch", {})
    spec = {"accessModes": ACCESS, "resources": {"requests": {"storage": config.get("size", SIZE)}}}
    claim = {"metadata": {"name": WORKSPACE_VOLUME}, "spec": spec | patch}
    return [models.PersistentVolumeClaim.model_validate(claim)]
