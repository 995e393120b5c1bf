"""What a run would make: its pods, what they request and cost, and what has to be there."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from trireme.components import secrets
from trireme.components.cost import prices, table
from trireme.components.cost.bill import Bill
from trireme.components.cost.prices import Prices
from trireme.components.dataset.volumes import CACHE
from trireme.components.deployment import looks
from trireme.components.errors import InputError
from trireme.components.kubernetes.access import Right
from trireme.components.kubernetes.amounts import requests
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.errors import NotFound
from trireme.components.kubernetes.resources import CONFIG_MAPS, PODS
from trireme.components.tracking.environment import SECRET
from trireme.components.training.cluster import checks, preflight
from trireme.components.training.cluster.checks import Finding, check_all
from trireme.components.training.cluster.operators import operator_of
from trireme.components.training.description.job import TrainingJob
from trireme.components.training.manifests import render, without_a_cluster
from trireme.components.training.manifests.references import Needed, references
from trireme.components.training.manifests.roles import roles
from trireme.pipelines import training
from trireme.pipelines.catalog import Pipeline
from trireme.pipelines.targets.steps import images

RECORDED = (
    f"by Kubeflow's MLflow plugin where it is on; else with MLFLOW_TRACKING_URI of the Secret "
    f"{SECRET}; without both nothing is recorded"
)
"""How a run on Kubeflow Pipelines comes into MLflow."""

LAUNCHER = "the Roles and RoleBindings of an overlay in manifests/overlays allow what is needed"
DEPLOYER = (
    "the Role and RoleBinding trireme-deployer in manifests/parts/deploying allow what is needed"
)


@dataclass(frozen=True)
class Pods:
    """Pods that are all alike.

    Attributes:
        name: Of their role.
        count: How many.
        image: What they run.
        requests: What each requests, by resource.
        hour: What an hour of all of them costs; 0 without a price table.
    """

    name: str
    count: int
    image: str
    requests: Mapping[str, Decimal]
    hour: float


@dataclass(frozen=True)
class Plan:
    """What a run would make.

    Attributes:
        steps: A pipeline's steps, in the order they run in, with their images; their pods request
            nothing. None of a job alone.
        manifest: The training job, with the time limit that its budget makes.
        trainings: How many such jobs there are, in a sweep.
        at_once: How many of them run at the same time.
        workspace: Size of the volume of a pipeline's run; empty for a job alone.
        needed: What has to be there.
        rights: What has to be allowed to whoever runs the job.
        prices: The price table, if there is one.
        deploying: What has to be allowed besides, to deploy the model.
    """

    steps: list[tuple[str, str]]
    manifest: dict[str, Any]
    trainings: int
    at_once: int
    workspace: str
    needed: list[Needed]
    rights: list[Right]
    prices: Prices | None
    deploying: list[Right] = field(default_factory=list)

    @property
    def pods(self) -> list[Pods]:
        """The training job's pods, by role."""
        return [
            Pods(
                role.name,
                role.count,
                role.image,
                asked := requests(role.pod),
                self.prices.hour(asked, role.selector) * role.count if self.prices else 0.0,
            )
            for role in roles(self.manifest)
        ]

    @property
    def total(self) -> Pods:
        """All of these together."""
        asked: dict[str, Decimal] = {}
        for pods in self.pods:
            for name, amount in pods.requests.items():
                asked[name] = asked.get(name, Decimal(0)) + pods.count * amount
        hour = self.prices.job_hour(self.manifest) if self.prices else 0.0
        return Pods("together", sum(pods.count for pods in self.pods), "", asked, hour)

    @property
    def time_limit(self) -> int | None:
        """Seconds that training may take; ``None`` where there is no limit."""
        spec = self.manifest["spec"]
        limit: int | None = spec.get("runPolicy", spec).get("activeDeadlineSeconds")
        return limit

    def check(self, cluster: Cluster, account: str = "") -> Iterator[Finding]:
        """Checks on a cluster that all of it would work there; nothing is created.

        Args:
            cluster: The cluster.
            account: The service account of a run's steps; empty for a job alone, which this user
                makes.
        """
        if not account:
            allowed = [checks.yours(cluster, self.rights)]
        else:
            allowed = [checks.account(cluster, account, self.rights, LAUNCHER)]
            if self.deploying:
                allowed += [checks.account(cluster, account, self.deploying, DEPLOYER)]
        yield from check_all(
            cluster, self.manifest, allowed, self.needed, self.at_once, self.workspace
        )


def of_pipeline(
    pipeline: Pipeline,
    arguments: dict[str, Any],
    claims: Mapping[str, Path],
    known: Prices | None,
    operator: Callable[[TrainingJob], str] = lambda job: "training-operator",
) -> Plan:
    """Plans a run of a pipeline.

    Args:
        pipeline: The pipeline.
        arguments: A value for every parameter.
        claims: The claims that all pods have mounted, and where.
        known: The price table, if there is one.
        operator: Tells what the job's manifest is made for; on this machine it is always the same.

    Raises:
        InputError: The budget is no limit for the training job.
    """
    steps, trainings = images(pipeline.graph.pipeline_spec), pipeline.trainings(arguments)
    training_alone = of_job(render(trainings.job, operator(trainings.job)), known)
    Bill(arguments["budget"], known).open(training_alone.manifest)
    deploying = looks.rights(arguments["deploy"]) if arguments.get("deploy") else []
    return replace(
        training_alone,
        steps=[(step, _image(image, arguments)) for step, image in steps],
        trainings=trainings.count,
        at_once=trainings.at_once,
        workspace=training.CONFIG.workspace.size,
        needed=[
            *_secrets(arguments),
            Needed("ConfigMap", table.CONFIG_MAP, optional=True),
            *(_claim(name, place) for name, place in claims.items()),
            *training_alone.needed,
        ],
        rights=[*training_alone.rights, (PODS, "", "get")],
        deploying=deploying,
    )


def on_kubeflow(plan: Plan) -> Plan:
    """Returns a plan with what Kubeflow Pipelines needs besides.

    Args:
        plan: The plan of a pipeline.
    """
    return replace(plan, needed=[Needed("Secret", SECRET, optional=True), *plan.needed])


def of_job(manifest: dict[str, Any], known: Prices | None) -> Plan:
    """Plans a training job without a pipeline.

    Args:
        manifest: The job.
        known: The price table, if there is one.
    """
    return Plan([], manifest, 1, 1, "", references(manifest), preflight.rights(manifest), known)


def operator_at(cluster: Cluster | None, job: TrainingJob) -> str:
    """Returns the operator that a job is planned for, where a cluster can be asked or not."""
    return operator_of(cluster, job) if cluster else without_a_cluster(job)


def prices_of(cluster: Cluster) -> Prices | None:
    """Returns the price table of a cluster's namespace; ``None`` without one.

    Raises:
        InputError: It is broken.
        Forbidden: This user may not see it.
    """
    try:
        found = cluster.get(CONFIG_MAPS, table.CONFIG_MAP, cluster.namespace)
    except NotFound:
        return None
    data = found.get("data") or {}
    if table.NAME not in data:
        raise InputError(f"ConfigMap {table.CONFIG_MAP}: has no key {table.NAME}")
    return prices.parse(data[table.NAME], f"in ConfigMap {table.CONFIG_MAP}")


def _image(image: str, arguments: dict[str, Any]) -> str:
    """Returns the image of a step, also where that depends on the framework."""
    return training.IMAGES[arguments["framework"]] if image.startswith("{{") else image


def _secrets(arguments: dict[str, Any]) -> Iterator[Needed]:
    for purpose, default in secrets.DEFAULTS.items():
        name = arguments[f"{purpose}_secret"]
        if name:
            yield Needed("Secret", name, optional=name == default)


def _claim(name: str, place: Path) -> Needed:
    # Training on several nodes reads either; what is copied to the cache is written, too.
    modes = ("ReadWriteMany",) if place == CACHE else ("ReadOnlyMany", "ReadWriteMany")
    return Needed("PersistentVolumeClaim", name, modes=modes)
