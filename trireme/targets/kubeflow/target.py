"""Kubeflow Pipelines as a place where pipelines run."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.code import bundle
from trireme.errors import TriremeError
from trireme.graph.model import StepPath
from trireme.kubernetes.connection import PATIENCE, PATIENCE_OF_A_PERSON, Cluster
from trireme.kubernetes.resources import SECRETS, WORKFLOWS
from trireme.last_words import LastWords
from trireme.manifests.references import Needed
from trireme.pipeline.pipeline import Pipeline
from trireme.targets import pending, pod_logs
from trireme.targets.base import ENDED, OnLine, Step, Version
from trireme.targets.kubeflow import (
    KUBEFLOW,
    compiling,
    experiments,
    logs,
    nodes,
    parameters,
    reading,
    retrying,
    runs,
    uploading,
)
from trireme.targets.kubeflow.client import Server
from trireme.targets.kubeflow.connection import Connection
from trireme.targets.kubeflow.reading import Run
from trireme.targets.remote import Remote
from trireme.text.say import say
from trireme.tracking.environment import SECRET

if TYPE_CHECKING:
    from trireme.planning import Plan
    from trireme.targets.kubeflow.schedules import KubeflowSchedules
    from trireme.terminal.console import Console

MANY = 80  # nodes of a run, above which Argo may pack them; the built-in pipelines have fewer
PATIENCE_FOR_RESULTS = 5.0  # seconds that an API server may be away; it is a help, and no more

EDITOR, RUNNER = "default-editor", "pipeline-runner"
"""What Kubeflow Pipelines runs steps as: in the namespace of one of several users, in its own."""

RECORDED = (
    f"by Kubeflow's MLflow plugin where it is on; else with MLFLOW_TRACKING_URI of the Secret "
    f"{SECRET}; without both nothing is recorded"
)


class Kubeflow(Remote[Run]):
    """Kubeflow Pipelines; see ``Target``."""

    name = "kfp"
    title = "Kubeflow"

    def __init__(
        self,
        endpoint: str = "",
        token_file: str = "",
        ca_file: str = "",
        namespace: str = "",
        kube_context: str = "",
        kubeflow_time_zone: str = "UTC",
    ) -> None:
        """Takes in where it is, as ``registry.TARGETS`` describes it; nothing is asked yet."""
        self._server = Server(
            endpoint=endpoint,
            namespace=namespace,
            token=os.environ.get("KFP_EXISTING_TOKEN", ""),
            token_file=token_file,
            ca_file=ca_file,
            context=kube_context,
        )
        self._time_zone = kubeflow_time_zone
        self._known: dict[str, dict[str, StepPath]] = {}
        self._died: dict[str, str] = {}

    @cached_property
    def connection(self) -> Connection:
        """The server, which has answered once; from then on it may be away for as long as fits."""
        connection = Connection(self._server, say)
        if self.stays:
            connection.patience = PATIENCE
        return connection

    @property
    def namespace(self) -> str:
        """Where runs are, as far as that is known without asking."""
        return self._server.namespace or KUBEFLOW

    def compile(self, pipeline: Pipeline, directory: Path) -> Path:
        return compiling.write(pipeline, directory)

    def upload(self, pipeline: Pipeline) -> Version:
        return uploading.upload(self.connection, pipeline)

    def start(
        self, pipeline: Pipeline, arguments: dict[str, Any], name: str, console: "Console"
    ) -> tuple[Run, str]:
        """Uploads a pipeline if it has changed, and starts a run of it."""
        parameters.check(arguments)
        experiment = experiments.experiment_name(pipeline.name, arguments)
        version = uploading.upload(self.connection, pipeline)
        version.show(pipeline.name, console)
        if pipeline.bundle:
            bundle.keep(pipeline.bundle, partial(self._cluster_of_runs, PATIENCE_OF_A_PERSON))
        run = runs.start(self.connection, version, name, experiment, arguments)
        return run, runs.recording_note(run, self._has_secret)

    def _has_secret(self) -> bool:
        """Tells whether this user sees that the Secret is there which leads to MLflow."""
        with suppress(TriremeError):
            cluster = self._cluster_of_runs(PATIENCE_FOR_RESULTS)
            return bool(cluster.get(SECRETS, SECRET, cluster.namespace))
        return False

    def latest(self) -> list[Run]:
        return runs.latest(self.connection)

    def every_run(self) -> list[Run]:
        """Returns all runs but archived ones; see ``Remote``."""
        return runs.every(self.connection)

    def remove(self, run: Run) -> None:
        # With it goes its Workflow, if that is there still, and its claim.
        self.connection.ask("runs.run_service_delete_run", run_id=run.id)

    def no_runs(self) -> str:
        return f"no runs at {self.connection.host}"

    def find(self, name: str) -> Run:
        return runs.find(self.connection, name)

    def steps(self, run: Run) -> list[Step]:
        """Returns the steps that have begun; what came of them their pods tell."""
        return reading.begun_steps(self._with_all_tasks(run), self._step_paths(run))

    def results(self, run: Run, steps: Sequence[Step]) -> dict[str, str]:
        """Returns the results of steps; none where the pods cannot be asked for."""
        # Kubeflow's API tells states alone. A step leaves its result as its container's last words,
        # which its pod has as long as that is there.
        try:
            words = self._last_words(run)
        except TriremeError:
            return {}
        results = {name: left.result for name, left in words.items()}
        return self.progress_in_words(run, steps) | results

    def _with_all_tasks(self, run: Run) -> Run:
        """Returns a run with what its Workflow tells, where that may be too large for the server.

        Kubeflow Pipelines 2.17 does not read nodes that Argo has packed, and tells of the run for
        ever as it was then: of a loop of seven turns, each of which has about 15 nodes of 8 KB.
        """
        if len(run.tasks) < MANY:
            return run
        with suppress(TriremeError):
            cluster = self._cluster_of_runs(PATIENCE_FOR_RESULTS)
            chosen = f"{logs.RUN}={run.id}"
            for workflow in cluster.items(WORKFLOWS, cluster.namespace, labelSelector=chosen):
                # Argo may keep them in a database, too.
                return replace(run, tasks=nodes.tasks_of(workflow.get("status") or {}) or run.tasks)
        return run

    def waits(self, run: Run) -> dict[str, str]:
        with suppress(TriremeError):
            cluster = self._cluster_of_runs(PATIENCE_FOR_RESULTS)
            pods_of_run = logs.every(cluster, run)
            steps = self._step_paths(run)
            drivers = logs.drivers(pods_of_run, steps)
            before = pending.of_failed(cluster, logs.failed(drivers), self._died)
            if run.state in ENDED:
                return before
            pods = [*drivers, *logs.of_steps(pods_of_run, steps)]
            return self._workflow_waits(cluster, run) | pending.of_pods(cluster, pods) | before
        return {}

    def _workflow_waits(self, cluster: Cluster, run: Run) -> dict[str, str]:
        chosen = f"{logs.RUN}={run.id}"
        for workflow in cluster.items(WORKFLOWS, cluster.namespace, labelSelector=chosen):
            return pending.of_workflow(workflow.get("status") or {}, run.created)
        return {}

    def last_words(self, run: Run) -> dict[str, LastWords]:
        with suppress(TriremeError):
            return self._last_words(run)
        return {}

    def _last_words(self, run: Run) -> dict[str, LastWords]:
        cluster = self._cluster_of_runs(PATIENCE_FOR_RESULTS)
        return pod_logs.last_words(logs.pods(cluster, run, self._step_paths(run)))

    def logs(self, name: str, step: str, on_line: OnLine, *, follow: bool) -> None:
        self.stays = follow
        run = self.find(name)
        cluster = self._cluster_of_runs(PATIENCE if follow else PATIENCE_OF_A_PERSON)
        steps = self._step_paths(run)
        pod_logs.check(step, list(steps))
        pod_logs.logs(
            cluster,
            run,
            step,
            lambda now: self._pods_with_logs(cluster, now, steps),
            lambda: runs.get(self.connection, run.id),
            on_line,
            self.waits,
            follow=follow,
            left=f"; what is left of them is at {run.page}",
        )

    def _pods_with_logs(
        self, cluster: Cluster, run: Run, steps: Mapping[str, StepPath]
    ) -> list[pod_logs.Named]:
        pods = logs.every(cluster, run)
        return [*logs.of_steps(pods, steps), *logs.failed(logs.drivers(pods, steps))]

    def stop(self, run: Run) -> None:
        runs.cancel(self.connection, run)

    def owner_of(self, run: Run) -> str:
        return run.id

    def training_jobs(self, run: Run) -> tuple[Cluster, str]:
        return self._cluster_of_runs(PATIENCE_FOR_RESULTS), run.id

    def retry(self, name: str) -> tuple[str, str]:
        run = self.find(name)
        connect = partial(self._cluster_of_runs, PATIENCE_OF_A_PERSON)
        return run.name, retrying.retry(self.connection, connect, run)

    def schedules(self) -> "KubeflowSchedules":
        from trireme.targets.kubeflow.schedules import KubeflowSchedules

        return KubeflowSchedules(lambda: self.connection, self._time_zone)

    def plan(self, plan: "Plan", pipeline: Pipeline) -> "Plan":
        compiling.check(pipeline.graph)
        account = RUNNER if self.namespace == KUBEFLOW else EDITOR
        needed = [Needed("ServiceAccount", account), Needed("Secret", SECRET, optional=True)]
        facts = plan.facts | {"MLflow": RECORDED}
        return replace(plan, account=account, needed=[*needed, *plan.needed], facts=facts)

    def cluster(self) -> Cluster:
        context = self._server.context or None
        return Cluster(self.namespace, context=context, patience=PATIENCE_OF_A_PERSON)

    def _step_paths(self, run: Run) -> dict[str, StepPath]:
        """Returns the paths to all steps that a run may have; it is asked for once."""
        if run.id not in self._known:
            self._known[run.id] = runs.step_paths_of(self.connection, run)
        return self._known[run.id]

    def _cluster_of_runs(self, patience: float) -> Cluster:
        context = self._server.context or None
        return Cluster(self.connection.namespace_of_runs, context=context, patience=patience)
