"""Plain Argo Workflows as a place where pipelines run."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.code import bundle
from trireme.errors import TriremeError
from trireme.kubernetes import access
from trireme.kubernetes.connection import PATIENCE, PATIENCE_OF_A_PERSON, Cluster
from trireme.kubernetes.errors import Forbidden, Refused
from trireme.kubernetes.resources import WORKFLOWS, Resource
from trireme.last_words import LastWords
from trireme.manifests.references import Needed
from trireme.pipeline.pipeline import Pipeline
from trireme.runner.cluster import checks
from trireme.runner.cluster.checks import Finding, Verdict
from trireme.targets import pending
from trireme.targets.argo import compiling, logs, server, tracking, workflows
from trireme.targets.argo.workflows import Node, Workflow
from trireme.targets.base import ENDED, OnLine, Step, Version
from trireme.targets.pod_logs import last_words
from trireme.targets.remote import Remote
from trireme.tracking.environment import SECRET

if TYPE_CHECKING:
    from trireme.planning import Plan
    from trireme.targets.argo.schedules import ArgoSchedules
    from trireme.terminal.console import Console

TASK_RESULTS = Resource("argoproj.io", "v1alpha1", "workflowtaskresults")
"""In which Argo's own container of a step says what it has left."""


class Argo(Remote[Workflow]):
    """Argo Workflows with no Kubeflow around it; see ``Target``."""

    name = "argo"
    title = "Argo"

    def __init__(
        self, namespace: str = "", kube_context: str = "", service_account: str = "trireme"
    ) -> None:
        """Takes in where it is, as ``registry.TARGETS`` describes it; nothing is asked yet."""
        self._namespace, self._context = namespace, kube_context
        self._service_account = service_account

    @cached_property
    def _cluster(self) -> Cluster:
        return Cluster(
            self._namespace,
            context=self._context or None,
            patience=PATIENCE if self.stays else PATIENCE_OF_A_PERSON,
            patience_at_first=PATIENCE_OF_A_PERSON,
        )

    def reached_by(self) -> str:
        return f"--target argo --namespace {self._cluster.namespace}"

    def no_runs(self) -> str:
        """Says that there are none, or no such namespace."""
        access.check_namespace(self._cluster)
        return f"no runs in namespace {self._cluster.namespace}"

    def compile(self, pipeline: Pipeline, directory: Path) -> Path:
        return compiling.write(pipeline, directory, self._service_account)

    def upload(self, pipeline: Pipeline) -> Version:
        template = compiling.compiled(pipeline, self._service_account)
        is_new = workflows.upload(self._cluster, template)
        return Version(is_new, {"Version": (template.labels or {})[workflows.VERSION]})

    def start(
        self, pipeline: Pipeline, arguments: dict[str, Any], name: str, console: "Console"
    ) -> tuple[Workflow, str]:
        """Makes a Workflow that holds all that it runs."""
        template = compiling.compiled(pipeline, self._service_account)
        checks.require_references(self._cluster, Needed("ServiceAccount", self._service_account))
        if pipeline.bundle:
            bundle.keep(pipeline.bundle, lambda: self._cluster)
        run = workflows.start(self._cluster, pipeline, template, arguments, name)
        return run, tracking.lacking(self._cluster)

    def latest(self) -> list[Workflow]:
        return self.every_run()[: workflows.LIMIT]

    def every_run(self) -> list[Workflow]:
        return workflows.every(self._cluster)

    def remove(self, run: Workflow) -> None:
        workflows.delete(self._cluster, run)

    def find(self, name: str) -> Workflow:
        return workflows.find(self._cluster, name)

    def steps(self, run: Workflow) -> list[Node]:
        return run.begun

    def results(self, run: Workflow, steps: Sequence[Step]) -> dict[str, str]:
        """Returns what steps have come to; who may not list pods sees what the workflow tells."""
        results = super().results(run, steps) | self.progress_in_words(run, steps)
        return results | {name: left.result for name, left in self.last_words(run).items()}

    def waits(self, run: Workflow) -> dict[str, str]:
        if run.state in ENDED:
            return {}
        phase = "" if run.state == "pending" and not run.begun else run.state
        reasons = pending.of_workflow({"phase": phase, "message": run.message}, run.created)
        with suppress(TriremeError):
            reasons |= pending.of_pods(self._cluster, logs.pods(self._cluster, run))
        return reasons

    def last_words(self, run: Workflow) -> dict[str, LastWords]:
        with suppress(Forbidden):
            return last_words(logs.pods(self._cluster, run))
        return {}

    def logs(self, name: str, step: str, on_line: OnLine, *, follow: bool) -> None:
        self.stays = follow
        logs.logs(self._cluster, self.find(name), step, on_line, self.waits, follow=follow)

    def stop(self, run: Workflow) -> None:
        """Has its steps ended, and its exit handlers run."""
        workflows.cancel(self._cluster, run)

    def owner_of(self, run: Workflow) -> str:
        return run.uid

    def training_jobs(self, run: Workflow) -> tuple[Cluster, str]:
        return self._cluster, run.uid

    def retry(self, name: str) -> tuple[str, str]:
        """Has Argo's server retry a run; see ``Remote``."""
        server.retry(self._cluster, name)
        return name, ""

    def schedules(self) -> "ArgoSchedules":
        from trireme.targets.argo.schedules import ArgoSchedules

        return ArgoSchedules(self.cluster, self._service_account)

    def cluster(self) -> Cluster:
        return self._cluster

    def plan(self, plan: "Plan", pipeline: Pipeline) -> "Plan":
        rights = [(TASK_RESULTS, "", "create"), (TASK_RESULTS, "", "patch"), (WORKFLOWS, "", "get")]
        account = Needed("ServiceAccount", self._service_account)
        return replace(
            plan,
            account=self._service_account,
            needed=[account, Needed("Secret", SECRET, optional=True), *plan.needed],
            rights=[*plan.rights, *rights],
        )

    def check(self, pipeline: Pipeline, cluster: Cluster) -> list[Finding]:
        """Checks that the API server would take a pipeline; nothing is made."""
        template = compiling.compiled(pipeline, self._service_account)
        try:
            workflows.apply(cluster, template, dryRun="All")
        except Refused as error:
            return [Finding(Verdict.FAILED, str(error))]
        return [Finding(Verdict.OK, "the API server would accept the WorkflowTemplate")]
