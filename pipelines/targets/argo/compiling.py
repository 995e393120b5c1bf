"""Compile pipelines for plain Argo, to WorkflowTemplates."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

from hera.workflows import WorkflowTemplate, models

from trireme.components.errors import InputError
from trireme.components.images import USER
from trireme.pipelines.compiling import ir
from trireme.pipelines.pipeline import Pipeline
from trireme.pipelines.targets.argo import tracking
from trireme.pipelines.targets.argo.expressions import (
    Value,
    encoded,
    json_value,
    member,
    shown,
    to_json,
)
from trireme.pipelines.targets.argo.graph import Dag
from trireme.pipelines.targets.argo.pod import WORKSPACE_VOLUME
from trireme.pipelines.targets.argo.reading import Compiled, NotOnArgo, only, plain, read
from trireme.pipelines.targets.argo.templates import Templates, call_arguments

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
    with tempfile.TemporaryDirectory(prefix="trireme-") as directory:
        file = ir.write(pipeline, Path(directory))
        return workflow_template(read(file), service_account, is_ours=True)


def write(pipeline: Pipeline, directory: Path, service_account: str) -> Path:
    """Writes a pipeline's WorkflowTemplate; returns the file, named after the pipeline."""
    file = directory / f"{pipeline.name}.yaml"
    text = compiled(pipeline, service_account).to_yaml()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except OSError as error:
        raise InputError(f"--output {directory}: cannot be written: {error}") from None
    return file


def workflow_template(
    compiled: Compiled, service_account: str = SERVICE_ACCOUNT, *, is_ours: bool = False
) -> WorkflowTemplate:
    """Returns a pipeline as a WorkflowTemplate; our steps record what they do in MLflow."""
    if len(compiled.name) > LONGEST_NAME:
        raise NotOnArgo(f"pipeline {compiled.name}", f"a name of more than {LONGEST_NAME} letters")
    templates = Templates(compiled)
    root = compiled.pipeline["root"]
    inputs = root.get("inputDefinitions", {})
    for name, spec in inputs.get("artifacts", {}).items():
        if not spec.get("isOptional"):
            raise NotOnArgo(f"input {name}", "an artifact that a run is given")
    parameters = inputs.get("parameters", {})
    absent = {
        name
        for name, spec in parameters.items()
        if "defaultValue" not in spec and spec.get("isOptional")
    }
    dag = Dag(templates, root, "", absent | set(inputs.get("artifacts", {})))
    templates.name(ENTRYPOINT)
    name = templates.name(compiled.name)
    dag.template(name)
    given = {dag.inputs[key]: _given(key, spec) for key, spec in parameters.items()}
    task = models.DAGTask(name=name, template=name)
    if given:
        task.arguments = models.Arguments(parameters=call_arguments(given))
    entry = models.Template(name=ENTRYPOINT, dag=models.DAGTemplate(tasks=[task]))
    if is_ours:
        tracking.add(templates.made, compiled.name, parameters)
    made = WorkflowTemplate(
        name=compiled.name,
        labels={PIPELINE: compiled.name},
        annotations=_annotations(compiled),
        workflow_metadata=models.WorkflowMetadata(labels={PIPELINE: compiled.name}),
        entrypoint=ENTRYPOINT,
        arguments=[_parameter(key, spec) for key, spec in parameters.items()] or None,
        service_account_name=service_account,
        # The user of Trireme's images writes to volumes that belong to root, too.
        security_context=models.PodSecurityContext(
            fs_group=USER, fs_group_change_policy="OnRootMismatch"
        ),
        volume_claim_templates=_workspace(compiled, templates.made),
        ttl_strategy=models.TTLStrategy(seconds_after_completion=KEPT_FOR),
        pod_gc=models.PodGC(strategy="OnWorkflowSuccess", delete_delay_duration=PODS_KEPT_FOR),
        templates=[entry, *templates.made],
    )
    version = hashlib.sha256(made.to_yaml().encode()).hexdigest()[:12]
    made.labels = {PIPELINE: compiled.name, VERSION: version}
    made.workflow_metadata = models.WorkflowMetadata(labels=made.labels)
    return made


def _annotations(compiled: Compiled) -> dict[str, str] | None:
    info = compiled.pipeline["pipelineInfo"]
    made = {
        "workflows.argoproj.io/title": info.get("displayName"),
        "workflows.argoproj.io/description": info.get("description"),
    }
    return {key: shown(value) for key, value in made.items() if value} or None


def _parameter(name: str, spec: dict[str, Any]) -> models.Parameter:
    """Returns a parameter of a run, as people fill it in: text as it is, anything else as JSON."""
    kind = spec["parameterType"]
    about = spec.get("description")
    value = None
    if spec.get("isOptional") or "defaultValue" in spec:
        value = as_given(plain(spec.get("defaultValue"), kind), kind)
    choices = [as_given(plain(each, kind), kind) for each in spec.get("literals", [])]
    if kind == "BOOLEAN":
        choices = ["true", "false"]
    return models.Parameter(
        name=name, value=value, enum=choices or None, description=shown(about) if about else None
    )


def as_given(value: Any, kind: str) -> str:
    """Returns a parameter's value as a run is given it."""
    if kind == "STRING" and isinstance(value, str):
        is_plain = value.isprintable() and "{{" not in value and not value.startswith('"')
        return value if is_plain and value != "null" else encoded(value)
    return encoded(value)


def _given(name: str, spec: dict[str, Any]) -> Value:
    """Returns what a run is given as JSON: text is that already where it begins with a quote."""
    given = member("workflow.parameters", name)
    if spec["parameterType"] != "STRING":
        return json_value(given)
    is_json = f"{given} startsWith '\"'"
    if spec.get("isOptional") and "defaultValue" not in spec:
        is_json += f" || {given} == 'null'"
    return Value("", f"({is_json}) ? {given} : ({to_json(given)})")


def _workspace(
    compiled: Compiled, made: list[models.Template]
) -> list[models.PersistentVolumeClaim] | None:
    """Returns the claim of the run workspace, if any step sees it."""
    mounts = (
        mount for each in made if each.container for mount in each.container.volume_mounts or []
    )
    if not any(mount.name == WORKSPACE_VOLUME for mount in mounts):
        return None
    given = compiled.workspace or {}
    only(("size", "kubernetes"), given, "the workspace")
    patch = given.get("kubernetes", {}).get("pvcSpecPatch", {})
    spec = {"accessModes": ACCESS, "resources": {"requests": {"storage": given.get("size", SIZE)}}}
    claim = {"metadata": {"name": WORKSPACE_VOLUME}, "spec": spec | patch}
    return [models.PersistentVolumeClaim.model_validate(claim)]
