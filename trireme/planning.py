"""The plan of a run: its pods, what they request and cost, and what has to be there."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from trireme import steps
from trireme.code import bundle
from trireme.cost import prices, table
from trireme.cost.prices import Prices
from trireme.credentials import secrets
from trireme.data.volumes import CACHE
from trireme.deployment import objects
from trireme.deployment.kinds import KINDS
from trireme.errors import InputError
from trireme.job.job import TrainingJob
from trireme.kubernetes.access import Right
from trireme.kubernetes.amounts import added, requests
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.resources import CONFIG_MAPS, PODS
from trireme.manifests import default_operator, render
from trireme.manifests.references import Needed, references
from trireme.manifests.roles import roles
from trireme.parameters import PARAMETERS
from trireme.pipeline.pipeline import Pipeline
from trireme.pipelines.training import JOB_PARAMETERS, Trainings, trainings
from trireme.runner.bill import Bill, job_hour
from trireme.runner.cluster import admission, checks
from trireme.runner.cluster.checks import Finding, check_all
from trireme.runner.cluster.operators import manifest_of
from trireme.tracking.environment import SECRET

CODE: Right = (CONFIG_MAPS, "", "get")
"""To read code that a run takes along."""

LAUNCHER = "the Roles and RoleBindings of an overlay in manifests/overlays allow what is needed"
DEPLOYER = (
    "the Role and RoleBinding trireme-deployer in manifests/parts/deploying allow what is needed"
)

LATER = "said by a step before"
"""Stands for an image that nobody knows before a run."""


@dataclass(frozen=True)
class Pods:
    """Pods that are all alike: what each requests, and what an hour of all costs, 0 if unknown."""

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
        manifest: The training job, with the time limit that its budget makes; empty where a
            pipeline does not say beforehand what it trains.
        trainings: How many such jobs there are, in a sweep.
        deploying: What has to be allowed besides, to deploy the model.
        job: What became the manifest, of a pipeline.
        account: The service account of a run's steps; empty for a job alone, which this user
            makes.
        facts: What else the pipeline says of it.
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
    account: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    job: TrainingJob | None = None

    @property
    def pods(self) -> list[Pods]:
        """The training job's pods, by role."""
        return [
            Pods(
                role.name,
                role.count,
                role.image,
                requested := requests(role.pod),
                self.prices.hour(requested, role.selector) * role.count if self.prices else 0.0,
            )
            for role in (roles(self.manifest) if self.manifest else ())
        ]

    @property
    def images(self) -> list[str]:
        """All that it pulls, as far as that is known beforehand; a step's first."""
        of_steps = [image for _, image in self.steps if image != LATER]
        return list(dict.fromkeys([*of_steps, *(pods.image for pods in self.pods)]))

    @property
    def total(self) -> Pods:
        """All of these together."""
        requested: dict[str, Decimal] = {}
        for pods in self.pods:
            requested = added(requested, pods.requests, pods.count)
        hour = job_hour(self.prices, self.manifest) if self.prices and self.manifest else 0.0
        return Pods("together", sum(pods.count for pods in self.pods), "", requested, hour)

    @property
    def time_limit(self) -> int | None:
        """Seconds that training may take; ``None`` where there is no limit."""
        spec = self.manifest.get("spec", {})
        limit: int | None = spec.get("runPolicy", spec).get("activeDeadlineSeconds")
        return limit

    def check(self, cluster: Cluster) -> Iterator[Finding]:
        """Checks on a cluster that all of it would work there; nothing is created."""
        if not self.account:
            allowed = [checks.yours(cluster, self.rights)]
        else:
            allowed = [checks.account(cluster, self.account, self.rights, LAUNCHER)]
            if self.deploying:
                allowed += [checks.account(cluster, self.account, self.deploying, DEPLOYER)]
        if not self.manifest:
            yield from allowed
            yield from (checks.is_there(cluster, needed) for needed in self.needed)
            return
        yield from check_all(
            cluster, self.manifest, allowed, self.needed, self.at_once, self.workspace
        )


def plan_pipeline(
    pipeline: Pipeline,
    arguments: dict[str, Any],
    price_table: Prices | None,
    manifest: Callable[[TrainingJob], dict[str, Any]] = render,
    pins: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """Plans a run of a pipeline.

    Args:
        pins: What replicas pull in place of Trireme's images, by name; steps have it already.
    """
    count, at_once = 0, 0
    job = Plan([], {}, count, at_once, "", [], [], price_table)
    if planned := _trainings(pipeline, arguments):
        count, at_once = planned.count, planned.at_once
        pinned = planned.job.model_copy(update={"images": {**pins, **planned.job.images}})
        job = replace(plan_job(manifest(pinned), price_table), job=planned.job)
        Bill(arguments.get("budget", 0.0), price_table).open(job.manifest)
    is_ours, kind = pipeline.source is None, arguments.get("deploy")
    takes_config_map = pipeline.bundle and pipeline.bundle.place == bundle.CONFIG_MAP
    return replace(
        job,
        steps=[
            (path[-1].name, pins.get(image := _image(step.image, arguments), image))
            for path, step in pipeline.graph.steps
        ],
        trainings=count,
        at_once=at_once,
        workspace=_workspace(pipeline),
        needed=[
            *(_secrets(arguments) if is_ours else _mounted_secrets(pipeline)),
            Needed("ConfigMap", table.CONFIG_MAP, optional=True),
            *(_claim(name, path) for name, path in pipeline.claims.items()),
            *job.needed,
        ],
        rights=[*job.rights, (PODS, "", "get"), *([CODE] if takes_config_map else [])],
        deploying=objects.rights(KINDS[kind]) if kind and is_ours else [],
        facts=pipeline.planned(arguments) if pipeline.planned else {},
    )


def plan_job(manifest: dict[str, Any], price_table: Prices | None) -> Plan:
    """Plans a training job without a pipeline."""
    return Plan(
        [], manifest, 1, 1, "", references(manifest), admission.rights(manifest), price_table
    )


def manifest_for(cluster: Cluster | None, job: TrainingJob) -> dict[str, Any]:
    """Returns the manifest that a job is planned with, where a cluster can be asked or not."""
    return manifest_of(cluster, job) if cluster else render(job, default_operator(job))


def read_prices(cluster: Cluster) -> Prices | None:
    """Returns the price table of a cluster's namespace; ``None`` without one."""
    config_map = cluster.find(CONFIG_MAPS, table.CONFIG_MAP, cluster.namespace)
    if config_map is None:
        return None
    data = config_map.get("data") or {}
    if table.NAME not in data:
        raise InputError(f"ConfigMap {table.CONFIG_MAP}: has no key {table.NAME}")
    return prices.parse(data[table.NAME], f"in ConfigMap {table.CONFIG_MAP}")


def _image(image: str, arguments: dict[str, Any]) -> str:
    """Returns the image of a step, also where that depends on the framework."""
    if not image.startswith("{{"):
        return image
    return steps.IMAGES.get(arguments.get("framework", ""), LATER)


def _trainings(pipeline: Pipeline, arguments: dict[str, Any]) -> Trainings | None:
    """Returns the trainings of a run, those of a pipeline of one's own as far as they are known."""
    if pipeline.trainings:
        return pipeline.trainings(arguments)
    paths = pipeline.graph.paths_of("train")
    if not paths:
        return None
    defaults = {name: PARAMETERS[name].default for name in (*JOB_PARAMETERS, "framework", "job")}
    inputs = defaults | pipeline.graph.inputs_of(paths[0], arguments)
    return trainings(inputs["framework"], inputs)


def _mounted_secrets(pipeline: Pipeline) -> Iterator[Needed]:
    """Yields the Secrets that the steps of a pipeline of one's own mount, where they are named."""
    optional = {
        mount["secretName"]: mount.get("optional", False)
        for _, step in pipeline.graph.steps
        for mount in step.pod.get("secretAsVolume", [])
    }
    for name in sorted(filter(None, optional.keys() - {SECRET})):  # which the target names
        yield Needed("Secret", name, optional=optional[name])


def _workspace(pipeline: Pipeline) -> str:
    """Returns the size of the volume of a run; empty where it has none."""
    return str((pipeline.graph.workspace or {}).get("size", ""))


def _secrets(arguments: dict[str, Any]) -> Iterator[Needed]:
    for purpose, default in secrets.DEFAULTS.items():
        if name := arguments.get(f"{purpose}_secret"):
            yield Needed("Secret", name, optional=name == default)


def _claim(name: str, path: Path) -> Needed:
    # Training on several nodes reads either; what is copied to the cache is written, too.
    modes = ("ReadWriteMany",) if path == CACHE else ("ReadOnlyMany", "ReadWriteMany")
    return Needed("PersistentVolumeClaim", name, modes=modes)
