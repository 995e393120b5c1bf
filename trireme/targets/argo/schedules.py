"""Schedules on plain Argo: what is there becomes what was asked for.

A CronWorkflow is replaced by one request, so a change that breaks off has happened or has not. Of a
pinned version it holds the whole workflow, which no upload changes; of the latest the name of the
WorkflowTemplate.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trireme.errors import InputError
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import AlreadyThere, NotFound
from trireme.kubernetes.resources import Resource
from trireme.manifests import to_yaml
from trireme.schedules import plans
from trireme.schedules.schedule import LATEST, PINNED, Schedule
from trireme.targets.argo import compiling, cron_workflows, workflows
from trireme.targets.argo.compiling import VERSION
from trireme.targets.argo.cron_workflows import ANNOTATION, CronWorkflow
from trireme.targets.argo.workflows import TEMPLATES
from trireme.text.say import say

CRON_WORKFLOWS = Resource("argoproj.io", "v1alpha1", "cronworkflows")


@dataclass(frozen=True)
class CheckedSchedule(plans.CheckedSchedule):
    """A schedule that Argo can run; ``workflow`` is None of a version that only a cluster has."""

    version: str
    workflow: dict[str, Any] | None


@dataclass(frozen=True)
class Plan(plans.Plan):
    """What is to be done about a schedule."""

    found: list[CronWorkflow]
    wanted: CronWorkflow


class ArgoSchedules(plans.Schedules[CheckedSchedule, Plan, CronWorkflow]):
    """The schedules of a namespace; see ``schedules.plans``."""

    listed_by = "trireme schedule list --target argo"

    def __init__(self, connect: Callable[[], Cluster], service_account: str) -> None:
        """Takes in where they are; nothing is asked yet."""
        self._connect, self._service_account = connect, service_account

    @cached_property
    def _cluster(self) -> Cluster:
        return self._connect()

    @property
    def _namespace(self) -> str:
        return self._cluster.namespace

    @property
    def place(self) -> str:
        return f"in namespace {self._namespace}"

    def check(self, described: list[Schedule], pins: dict[str, str]) -> list[CheckedSchedule]:
        return [self._check(schedule, pins) for schedule in described]

    def compare(self, checked: CheckedSchedule) -> Plan:
        existing = self.named(checked.schedule.name)
        if checked.schedule.version == LATEST:
            self._uploaded(checked)
        runs = all(cron_workflow.is_enabled for cron_workflow in existing)
        if checked.schedule.paused is not None:
            runs = not checked.schedule.paused
        desired = self._desired(checked, existing, runs=runs)
        differences = _differences(existing[0], desired) if existing else []
        return Plan(desired.schedule, existing, differences, runs, desired, notes=checked.notes)

    def render(self, checked: CheckedSchedule) -> tuple[str, str]:
        desired = self._desired(checked, [], runs=not checked.schedule.paused)
        return to_yaml(desired.manifest), "yaml"

    def carry_out(self, plan: Plan) -> dict[str, Any]:
        name, manifest = plan.schedule.name, plan.wanted.manifest
        try:
            if plan.found:
                manifest = _put_in(plan.found[0].manifest, manifest)
                self._cluster.replace(CRON_WORKFLOWS, manifest, self._namespace)
            else:
                self._cluster.create(
                    CRON_WORKFLOWS, manifest, self._namespace, fieldValidation="Strict"
                )
        except AlreadyThere:  # by somebody else, or by a request whose answer was lost
            if [schedule.content for schedule in self.named(name)] != [plan.wanted.content]:
                raise
        return {"CronWorkflow": f"{name} {self.place}"}

    def everything(self) -> list[CronWorkflow]:
        """Returns all schedules that Trireme has made, and warns of any unreadable."""
        schedules = []
        for manifest in self._cluster.each(CRON_WORKFLOWS, self._namespace):
            try:
                schedules.append(cron_workflows.read(manifest))
            except InputError as error:
                say(f"warning: {error}")
        return [*filter(None, schedules)]

    def named(self, name: str) -> list[CronWorkflow]:
        """Returns the schedule of a name, as the only one in a list."""
        manifest = self._cluster.find(CRON_WORKFLOWS, name, self._namespace)
        if manifest is None:
            return []
        if (schedule := cron_workflows.read(manifest)) is None:
            raise InputError(
                f"schedule {name!r}: a CronWorkflow of that name exists that Trireme did not "
                "create; choose another name"
            )
        return [schedule]

    def enable(self, kept: CronWorkflow, enabled: bool) -> None:
        changed = {"spec": {"suspend": not enabled}}
        self._cluster.patch(CRON_WORKFLOWS, kept.schedule.name, self._namespace, changed)

    def remove(self, kept: CronWorkflow) -> None:
        name, uid = kept.schedule.name, kept.manifest["metadata"]["uid"]
        with suppress(NotFound):  # by somebody else, or by a request whose answer was lost
            self._cluster.delete(CRON_WORKFLOWS, name, self._namespace, uid, dependents="Orphan")

    def _check(self, schedule: Schedule, pins: dict[str, str]) -> CheckedSchedule:
        """Refuses a schedule that could not work, before anything is asked or created."""
        checked = plans.check(schedule, pins)
        cron_workflows.five_fields(schedule.cron)
        version, workflow = self._workflow(checked)
        notes = cron_workflows.notes(schedule)
        fields = vars(checked) | {"notes": notes}
        return CheckedSchedule(**fields, version=version, workflow=workflow)

    def _workflow(self, checked: plans.CheckedSchedule) -> tuple[str, dict[str, Any] | None]:
        """Returns the version that is to run, and its runs' specification, if it is known here."""
        schedule, pipeline = checked.schedule, checked.pipeline
        if schedule.version == LATEST:
            named = {"workflowTemplateRef": {"name": pipeline.name}}
            parameters = workflows.as_parameters(pipeline, schedule.params)
            return LATEST, named | ({"arguments": {"parameters": parameters}} if parameters else {})
        if schedule.version != PINNED:
            return schedule.version, None
        template = compiling.compiled(pipeline, self._service_account)
        compiled = json.loads(json.dumps(template.to_dict()))
        return compiled["metadata"]["labels"][VERSION], _with_params(checked, compiled["spec"])

    def _desired(
        self, checked: CheckedSchedule, existing: list[CronWorkflow], *, runs: bool
    ) -> CronWorkflow:
        """Returns what is to be there."""
        schedule, workflow = checked.schedule, checked.workflow
        if workflow is None and existing and _is_same_run(existing[0].schedule, schedule):
            workflow = existing[0].manifest["spec"]["workflowSpec"]
        if workflow is None:
            workflow = self._uploaded_version(checked)
        schedule = schedule.model_copy(update={"version": checked.version})
        return cron_workflows.made(schedule, workflow, runs=runs)

    def _uploaded_version(self, checked: CheckedSchedule) -> dict[str, Any]:
        """Returns the specification of the runs of a version that the cluster has."""
        schedule, uploaded = checked.schedule, self._uploaded(checked)
        version = (uploaded["metadata"].get("labels") or {}).get(VERSION, "")
        if version != schedule.version:
            raise InputError(
                f"schedule {schedule.name}: {checked.pipeline.name} has no version "
                f"{schedule.version!r}; Argo has only the one uploaded last, {version}; give "
                f"that, {PINNED} or {LATEST}"
            )
        return _with_params(checked, uploaded["spec"])

    def _uploaded(self, checked: CheckedSchedule) -> dict[str, Any]:
        """Returns the WorkflowTemplate that the cluster has."""
        name = checked.pipeline.name
        uploaded = self._cluster.find(TEMPLATES, name, self._namespace)
        if uploaded is None:
            raise InputError(
                f"schedule {checked.schedule.name}: pipeline {name} is not in namespace "
                f"{self._namespace} yet; 'trireme upload {name} --target argo' uploads it"
            )
        return uploaded


def _with_params(checked: plans.CheckedSchedule, spec: dict[str, Any]) -> dict[str, Any]:
    return workflows.with_arguments(
        spec, pipeline=checked.pipeline, arguments=checked.schedule.params
    )


def _differences(existing: CronWorkflow, desired: CronWorkflow) -> list[str]:
    """Says in what a schedule differs from what is there."""
    differences = plans.differences(
        existing.facts | {"paused": not existing.is_enabled},
        desired.facts | {"paused": not desired.is_enabled},
    )
    if not differences and existing.content != desired.content:
        return ["it was changed by somebody else, or created by another release of Trireme"]
    return differences


def _is_same_run(one: Schedule, other: Schedule) -> bool:
    return (one.pipeline, one.version, one.params) == (other.pipeline, other.version, other.params)


def _put_in(existing: dict[str, Any], desired: dict[str, Any]) -> dict[str, Any]:
    """Returns an object of the cluster with what is ours to say in place of what was said."""
    before, new = existing["metadata"], desired["metadata"]
    labels = {key: value for key, value in (before.get("labels") or {}).items() if key != VERSION}
    annotations = (before.get("annotations") or {}) | {ANNOTATION: new["annotations"][ANNOTATION]}
    metadata = before | {"labels": labels | new["labels"], "annotations": annotations}
    return existing | {"metadata": metadata, "spec": desired["spec"]}
