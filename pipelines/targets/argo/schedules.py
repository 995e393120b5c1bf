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

from trireme.components.errors import InputError
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.errors import AlreadyThere, NotFound
from trireme.components.kubernetes.resources import Resource
from trireme.components.say import say
from trireme.pipelines.schedules import plans as schedule_plans
from trireme.pipelines.schedules.plans import Order
from trireme.pipelines.schedules.schedule import LATEST, PINNED, Schedule
from trireme.pipelines.targets.argo import compiling, cron_workflows, workflows
from trireme.pipelines.targets.argo.compiling import VERSION
from trireme.pipelines.targets.argo.cron_workflows import ASKED, CronWorkflow
from trireme.pipelines.targets.argo.workflows import TEMPLATES

CRON_WORKFLOWS = Resource("argoproj.io", "v1alpha1", "cronworkflows")


@dataclass(frozen=True)
class Plan(schedule_plans.Plan):
    """What is to be done about a schedule."""

    wanted: CronWorkflow
    found: CronWorkflow | None


class ArgoSchedules:
    """The schedules of a namespace; see ``schedules.plans``."""

    def __init__(self, cluster: Cluster, service_account: str) -> None:
        """Takes in where they are; nothing is asked yet."""
        self._cluster = cluster
        self._service_account = service_account

    def plan(self, described: list[Schedule], pins: dict[str, str]) -> list[Plan]:
        """Returns what is to be done about schedules; nothing is changed."""
        orders = [schedule_plans.check(schedule, pins) for schedule in described]
        return [self._plan(order) for order in orders]

    def carry_out(self, plan: Plan) -> dict[str, Any]:
        """Does what is to be done; returns how to find what is on the cluster then."""
        name, namespace = plan.schedule.name, self._cluster.namespace
        manifest = plan.wanted.manifest
        try:
            if plan.found:
                manifest = _put_in(plan.found.manifest, manifest)
                self._cluster.replace(CRON_WORKFLOWS, manifest, namespace)
            else:
                self._cluster.create(CRON_WORKFLOWS, manifest, namespace, fieldValidation="Strict")
        except AlreadyThere:  # by somebody else, or by a request whose answer was lost
            found = self._named(name)
            if found is None or found.content != plan.wanted.content:
                raise
        return {"CronWorkflow": f"{name} in namespace {namespace}"}

    def listing(self) -> list[CronWorkflow]:
        """Returns all schedules that Trireme has made, by name, and warns of any unreadable."""
        ours = []
        for manifest in self._cluster.list(CRON_WORKFLOWS, self._cluster.namespace)["items"]:
            try:
                ours.append(cron_workflows.read(manifest))
            except InputError as error:
                say(f"warning: {error}")
        return sorted(filter(None, ours), key=lambda each: each.schedule.name)

    def find(self, name: str) -> list[CronWorkflow]:
        """Returns the schedule of a name, as the only one in a list."""
        if not (found := self._named(name)):
            raise InputError(
                f"there is no schedule {name!r} in namespace {self._cluster.namespace}; 'trireme "
                "schedule list --target argo' shows those there are"
            )
        return [found]

    def pause(self, name: str) -> None:
        """Has a schedule rest."""
        self._suspend(name, True)

    def resume(self, name: str) -> None:
        """Has a schedule run again."""
        self._suspend(name, False)

    def delete(self, name: str) -> None:
        """Removes a schedule; its runs stay."""
        (found,) = self.find(name)
        uid = found.manifest["metadata"]["uid"]
        with suppress(NotFound):  # by somebody else, or by a request whose answer was lost
            self._cluster.delete(
                CRON_WORKFLOWS, name, self._cluster.namespace, uid, dependents="Orphan"
            )

    def _plan(self, order: Order) -> Plan:
        found = self._named(order.schedule.name)
        version, workflow = self._workflow(order, found)
        schedule = order.schedule.model_copy(update={"version": version})
        runs = found is None or found.is_enabled
        if schedule.paused is not None:
            runs = not schedule.paused
        wanted = cron_workflows.made(schedule, workflow, runs=runs)
        return Plan(
            schedule,
            found is not None,
            _differences(found, wanted) if found else [],
            runs,
            wanted,
            found,
            notes=cron_workflows.notes(schedule),
        )

    def _workflow(self, order: Order, found: CronWorkflow | None) -> tuple[str, dict[str, Any]]:
        """Returns the name of the version that is to run, and the specification of its runs."""
        schedule, pipeline = order.schedule, order.pipeline
        given = partial(workflows.with_arguments, pipeline=pipeline, arguments=schedule.params)
        if schedule.version == PINNED:
            template = compiling.compiled(pipeline, self._service_account)
            compiled = json.loads(json.dumps(template.to_dict()))
            return compiled["metadata"]["labels"][VERSION], given(compiled["spec"])
        if schedule.version != LATEST and found and _is_same_run(found.schedule, schedule):
            return schedule.version, found.manifest["spec"]["workflowSpec"]
        try:
            uploaded = self._cluster.get(TEMPLATES, pipeline.name, self._cluster.namespace)
        except NotFound:
            raise InputError(
                f"schedule {schedule.name}: pipeline {pipeline.name} is not in namespace "
                f"{self._cluster.namespace} yet; 'trireme upload {pipeline.name} --target argo' "
                "brings it there"
            ) from None
        if schedule.version == LATEST:
            named = {"workflowTemplateRef": {"name": pipeline.name}}
            parameters = workflows.as_parameters(pipeline, schedule.params)
            return LATEST, named | ({"arguments": {"parameters": parameters}} if parameters else {})
        version = (uploaded["metadata"].get("labels") or {}).get(VERSION, "")
        if version != schedule.version:
            raise InputError(
                f"schedule {schedule.name}: {pipeline.name} has no version {schedule.version!r}; "
                f"Argo has only the one uploaded last, {version}; say that, "
                f"{PINNED} or {LATEST}"
            )
        return version, given(uploaded["spec"])

    def _named(self, name: str) -> CronWorkflow | None:
        """Returns what is there of a name."""
        try:
            manifest = self._cluster.get(CRON_WORKFLOWS, name, self._cluster.namespace)
        except NotFound:
            return None
        if (found := cron_workflows.read(manifest)) is None:
            raise InputError(
                f"schedule {name!r}: there is a CronWorkflow of that name that Trireme did not "
                "make, and it is left alone; take another name"
            )
        return found

    def _suspend(self, name: str, suspend: bool) -> None:
        self.find(name)
        changed = {"spec": {"suspend": suspend}}
        self._cluster.patch(CRON_WORKFLOWS, name, self._cluster.namespace, changed)


def _differences(found: CronWorkflow, wanted: CronWorkflow) -> list[str]:
    """Says in what a schedule differs from what is there."""
    said = schedule_plans.differences(
        found.facts | {"paused": not found.is_enabled},
        wanted.facts | {"paused": not wanted.is_enabled},
    )
    if not said and found.content != wanted.content:
        return ["it was changed by somebody else, or made by another release of Trireme"]
    return said


def _is_same_run(one: Schedule, other: Schedule) -> bool:
    return (one.pipeline, one.version, one.params) == (other.pipeline, other.version, other.params)


def _put_in(there: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Returns an object of the cluster with what is ours to say in place of what was said."""
    before, ours = there["metadata"], wanted["metadata"]
    labels = {key: value for key, value in (before.get("labels") or {}).items() if key != VERSION}
    annotations = (before.get("annotations") or {}) | {ASKED: ours["annotations"][ASKED]}
    metadata = before | {"labels": labels | ours["labels"], "annotations": annotations}
    return there | {"metadata": metadata, "spec": wanted["spec"]}
