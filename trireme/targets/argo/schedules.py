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
            if [each.content for each in self.named(name)] != [plan.wanted.content]:
                raise
        return {"CronWorkflow": f"{name} {self.place}"}

    def everything(self) -> list[CronWorkflow]:
        """Returns all schedules that Trireme has made, and warns of any unreadable."""
        ours = []
        for manifest in self._cluster.each(CRON_WORKFLOWS, self._namespace):
            try:
                ours.append(cron_workflows.read(manifest))
            except InputError as error:
                say(f"warning: {error}")
        return [*filter(None, ours)]

    def named(self, name: str) -> list[CronWorkflow]:
        """Returns the schedule of a name, as the only one in a list."""
        manifest = self._cluster.find(CRON_WORKFLOWS, name, self._namespace)
        if manifest is None:
            return []
        if (found := cron_workflows.read(manifest)) is None:
            raise InputError(
                f"schedule {name!r}: a CronWorkflow of that name exists that Trireme did not "
                "create; choose another name"
            )
        return [found]

    def enable(self, kept: CronWorkflow, enabled: bool) -> None:
        changed = {"spec": {"suspend": not enabled}}
        self._cluster.patch(CRON_WORKFLOWS, kept.schedule.name, self._namespace, changed)

    def remove(self, kept: CronWorkflow) -> None:
        name, uid = kept.schedule.name, kept.manifest["metadata"]["uid"]
        with suppress(NotFound):  # by somebody else, or by a request whose answer was lost
            self._cluster.delete(CRON_WORKFLOWS, name, self._namespace, uid, dependents="Orphan")

    def _plan(self, checked: CheckedSchedule) -> Plan:
        found = self.named(checked.schedule.name)
        version, workflow = self._workflow(checked, found)
        schedule = checked.schedule.model_copy(update={"version": version})
        runs = all(each.is_enabled for each in found)
        if schedule.paused is not None:
            runs = not schedule.paused
        wanted = cron_workflows.made(schedule, workflow, runs=runs)
        differences = _differences(found[0], wanted) if found else []
        notes = cron_workflows.notes(schedule)
        return Plan(schedule, found, differences, runs, wanted, notes=notes)

    def _workflow(
        self, checked: CheckedSchedule, found: list[CronWorkflow]
    ) -> tuple[str, dict[str, Any]]:
        """Returns the name of the version that is to run, and the specification of its runs."""
        schedule, pipeline = checked.schedule, checked.pipeline
        given = partial(workflows.with_arguments, pipeline=pipeline, arguments=schedule.params)
        if schedule.version == PINNED:
            template = compiling.compiled(pipeline, self._service_account)
            compiled = json.loads(json.dumps(template.to_dict()))
            return compiled["metadata"]["labels"][VERSION], given(compiled["spec"])
        if schedule.version != LATEST and found and _is_same_run(found[0].schedule, schedule):
            return schedule.version, found[0].manifest["spec"]["workflowSpec"]
        uploaded = self._cluster.find(TEMPLATES, pipeline.name, self._namespace)
        if uploaded is None:
            raise InputError(
                f"schedule {schedule.name}: pipeline {pipeline.name} is not in namespace "
                f"{self._namespace} yet; 'trireme upload {pipeline.name} --target argo' uploads "
                "it"
            )
        if schedule.version == LATEST:
            named = {"workflowTemplateRef": {"name": pipeline.name}}
            parameters = workflows.as_parameters(pipeline, schedule.params)
            return LATEST, named | ({"arguments": {"parameters": parameters}} if parameters else {})
        version = (uploaded["metadata"].get("labels") or {}).get(VERSION, "")
        if version != schedule.version:
            raise InputError(
                f"schedule {schedule.name}: {pipeline.name} has no version {schedule.version!r}; "
                f"Argo has only the one uploaded last, {version}; give that, {PINNED} or {LATEST}"
            )
        return version, given(uploaded["spec"])


def _differences(found: CronWorkflow, wanted: CronWorkflow) -> list[str]:
    """Says in what a schedule differs from what is there."""
    said = plans.differences(
        found.facts | {"paused": not found.is_enabled},
        wanted.facts | {"paused": not wanted.is_enabled},
    )
    if not said and found.content != wanted.content:
        return ["it was changed by somebody else, or created by another release of Trireme"]
    return said


def _is_same_run(one: Schedule, other: Schedule) -> bool:
    return (one.pipeline, one.version, one.params) == (other.pipeline, other.version, other.params)


def _put_in(existing: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Returns an object of the cluster with what is ours to say in place of what was said."""
    before, ours = existing["metadata"], wanted["metadata"]
    labels = {key: value for key, value in (before.get("labels") or {}).items() if key != VERSION}
    annotations = (before.get("annotations") or {}) | {ANNOTATION: ours["annotations"][ANNOTATION]}
    metadata = before | {"labels": labels | ours["labels"], "annotations": annotations}
    return existing | {"metadata": metadata, "spec": wanted["spec"]}
