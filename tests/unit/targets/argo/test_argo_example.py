"""The example of a schedule in manifests/: what "trireme schedule --target argo" would make."""

from collections.abc import Callable
from typing import Any

from trireme.kubernetes.resources import Resource
from trireme.manifests import to_yaml
from trireme.schedules.schedule import LATEST, Schedule
from trireme.targets.argo.compiling import SERVICE_ACCOUNT
from trireme.targets.argo.schedules import ArgoSchedules
from trireme.targets.argo.workflows import TEMPLATES

SCHEDULE = Schedule(
    name="nightly-retraining",
    pipeline="retraining",
    cron="0 3 * * *",
    version=LATEST,
    paused=True,
)


class Cluster:
    """A cluster that has the pipelines, and no schedule yet."""

    namespace = "trireme"

    def find(self, resource: Resource, name: str, namespace: str) -> dict[str, Any] | None:
        return {"metadata": {"name": name}} if resource == TEMPLATES else None


def test_golden_schedule(golden: Callable[[str, str], None]) -> None:
    schedules = ArgoSchedules(Cluster, SERVICE_ACCOUNT)  # type: ignore[arg-type]
    (plan,) = schedules.plan([SCHEDULE], {})
    golden("../../manifests/pipelines/nightly-retraining.yaml", to_yaml(plan.wanted.manifest))
