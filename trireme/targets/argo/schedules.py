"""Schedules on plain Argo: what is there becomes what was asked for.

A CronWorkflow is replaced by one request, so a change that breaks off has happened or has not. Of a
pinned version it holds the whole workflow, which no upload changes; of the latest the name of the
WorkflowTemplate.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from trireme.errors import InputError
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import AlreadyThere, NotFound
from trireme.kubernetes.resources import Resource
from trireme.schedules import plans
from trireme.schedules.plans import CheckedSchedule
from trireme.schedules.schedule import LATEST, PINNED, Schedule
from trireme.targets.argo import compiling, cron_workflows, workflows
from trireme.targets.argo.compiling import VERSION
from trireme.targets.argo.cron_workflows import ANNOTATION, CronWorkflow
from trireme.targets.argo.workflows import TEMPLATES
from trireme.text.say import say

CRON_WORKFLOWS = Resource("argoproj.io", "v1alpha1", "cronworkflows")


@dataclass(frozen=True)
class Plan(plans.Plan):
    """What is to be done about a schedule."""

    found: list[CronWorkflow]
    wanted: CronWorkflow


class ArgoSchedules(plans.Schedules[Plan, CronWorkflow]):
    """The schedules of a namespace; see ``schedules.plans``."""

    listed_by = "trireme schedule list --target argo"

    def __init__(self, cluster: Cluster, service_account: str) -> None:
        """Takes in where they are; nothing is asked yet."""
        self._cluster, self._namespace = cluster, cluster.namespace
        self._service_account = service_account

    @property
    def place(self) -> str:
        return f"in namespace {self._namespace}"

    def plan(self, described: list[Schedule], pins: dict[str, str]) -> list[Plan]:
        checked_schedules = [plans.check(schedule, pins) for schedule in described]
        return [self._plan(checked) for checked in checked_schedules]

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

    def enable(self, cron_workflow: CronWorkflow, enabled: bool) -> None:
        changed = {"spec": {"suspend": not enabled}}
        self._cluster.patch(CRON_WORKFLOWS, cron_workflow.schedule.name, self._namespace, changed)

    def remove(self, cron_workflow: CronWorkflow) -> None:
        name, uid = cron_workflow.schedule.name, cron_workflow.manifest["metadata"]["uid"]
        with suppress(NotFound):  # by somebody else, or by a request whose answer was lost
            self._cluster.delete(CRON_WORKFLOWS, name, self._namespace, uid, dependents="Orphan")

    def _plan(self, checked: CheckedSchedule) -> Plan:
        existing = self.named(checked.schedule.name)
        version, workflow = self._workflow(checked, existing)
        schedule = checked.schedule.model_copy(update={"version": version})
        runs = all(cron_workflow.is_enabled for cron_workflow in existing)
        if schedule.paused is not None:
            runs = not schedule.paused
        desired = cron_workflows.made(schedule, workflow, runs=runs)
        differences = _differences(existing[0], desired) if existing else []
        notes = cron_workflows.notes(schedule)
        return Plan(schedule, existing, differences, runs, desired, notes=notes)

    def _workflow(
        self, checked: CheckedSchedule, existing: list[CronWorkflow]
    ) -> tuple[str, dict[str, Any]]:
        """Returns the name of the version that is to run, and the specification of its runs."""
        schedule, pipeline = checked.schedule, checked.pipeline
        fill = partial(workflows.with_arguments, pipeline=pipeline, arguments=schedule.params)
        if schedule.version == PINNED:
            template = compiling.compiled(pipeline, self._service_account)
            compiled = json.loads(json.dumps(template.to_dict()))
            return compiled["metadata"]["labels"][VERSION], fill(compiled["spec"])
        if schedule.version != LATEST and existing and _is_same_run(existing[0].schedule, schedule):
            return schedule.version, existing[0].manifest["spec"]["workflowSpec"]
        uploaded = self._cluster.find(TEMPLATES, pipeline.name, self._namespace)
        if uploaded is None:
            raise InputError(
                f"schedule {schedule.name}: pipeline {pipeline.name} is not in namespace "
                f"{self._namespace} yet; 'trireme upload {pipeline.name} --target argo' uploads "
                "it"
            )
        if schedule.version == LATEST:
            ref = {"workflowTemplateRef": {"name": pipeline.name}}
            parameters = workflows.as_parameters(pipeline, schedule.params)
            return LATEST, ref | ({"arguments": {"parameters": parameters}} if parameters else {})
        version = (uploaded["metadata"].get("labels") or {}).get(VERSION, "")
        if version != schedule.version:
            raise InputError(
                f"schedule {schedule.name}: {pipeline.name} has no version {schedule.version!r}; "
                f"Argo has only the one uploaded last, {version}; give that, {PINNED} or {LATEST}"
            )
        return version, fill(uploaded["spec"])


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
