"""The rollout of a new version: waiting until it is up, or plain that it never will be."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from trireme.deployment.objects import POLL, REPLICA_SETS, REVISION, Manifest, find, named
from trireme.deployment.pod_problems import UNCREATED, Pod, PodProblem, describe, worst
from trireme.errors import TriremeError
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.resources import PODS


class NotReady(TriremeError):
    """The new version does not come up; ``detail`` holds the last lines of its container."""


class Superseded(TriremeError):
    """Somebody has changed or deleted the object meanwhile: it is no longer ours to put back."""


class RolloutStatus(NamedTuple):
    """How far a new version is.

    Attributes:
        pods: Its pods, without those that are ending.
        problem: What keeps it, apart from what keeps its pods.
    """

    pods: list[Pod]
    progress: str
    done: bool = False
    problem: PodProblem | None = None


class Rollout:
    """A new version that comes up."""

    def __init__(
        self,
        cluster: Cluster,
        status_of: Callable[[], RolloutStatus],
        timeout: float,
        on_state: Callable[[str], None],
    ) -> None:
        self._cluster, self._look, self._on_state = cluster, status_of, on_state
        self._timeout, self._limit = timeout, time.monotonic() + timeout
        self._said = ""
        self._since: dict[str, float] = {}

    def wait_for_pod(self) -> Pod:
        """Waits until a pod of the new version is ready; returns it."""
        status = self._until(lambda status: any(map(is_ready, status.pods)))
        return next(filter(is_ready, status.pods))

    def wait_until_done(self) -> None:
        """Waits until only the new version runs."""
        self._until(lambda status: status.done)

    def _until(self, is_reached: Callable[[RolloutStatus], bool]) -> RolloutStatus:
        while True:
            status = self._look()
            if status.progress != self._said:
                self._said = status.progress
                self._on_state(status.progress)
            if is_reached(status):
                return status
            problem = status.problem or worst(status.pods)
            if problem and self._has_lasted(problem):
                raise NotReady(*describe(self._cluster, problem))
            if time.monotonic() > self._limit:
                text, lines = describe(self._cluster, problem) if problem else (status.progress, "")
                raise NotReady(f"it was not ready within {self._timeout:.0f} s: {text}", lines)
            time.sleep(POLL)

    def _has_lasted(self, problem: PodProblem) -> bool:
        now = time.monotonic()
        self._since = {problem.kind: self._since.get(problem.kind, now)}
        return now - self._since[problem.kind] >= problem.patience


def is_ready(pod: Pod) -> bool:
    """Tells whether a pod's readiness probe says that it answers."""
    return _condition(pod.get("status", {}), "Ready").get("status") == "True"


# https://kserve.github.io/website/docs/reference/crd-api#servingkserveiov1beta1
_FAILED = ("InvalidSpec", "BlockedByFailedLoad")


def deployment_status(cluster: Cluster, applied: Manifest) -> RolloutStatus:
    """Looks at a Deployment, as ``kubectl rollout status`` does."""
    deployment = _present(cluster, applied, "template")
    status, replicas = deployment.get("status", {}), deployment["spec"]["replicas"]
    if status.get("observedGeneration", 0) < deployment["metadata"]["generation"]:
        return RolloutStatus([], "waiting for the cluster to start it")
    pods = _pods_of(cluster, deployment)
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    old = status.get("replicas", 0) - updated
    ready = sum(map(is_ready, pods))
    progress = f"{ready} of {replicas} new pods ready" + (f", {old} old" if old > 0 else "")
    is_done = updated >= replicas and old <= 0 and available >= updated
    return RolloutStatus(pods, progress, is_done, _uncreated(status))


def inference_service_status(cluster: Cluster, applied: Manifest) -> RolloutStatus:
    """Looks at an InferenceService.

    Its own Ready may still be that of the version before, and its observedGeneration is that of
    an object below it: only a pod with the new version's labels is surely a new one.
    https://github.com/kserve/kserve/blob/v0.15.0/pkg/apis/serving/v1beta1/inference_service_status.go
    """
    service = _present(cluster, applied, "predictor")
    labels = service["spec"]["predictor"]["labels"] | {
        "serving.kserve.io/inferenceservice": service["metadata"]["name"]
    }
    pods = _living(cluster, labels)
    status = service.get("status", {})
    ready = _condition(status, "Ready")
    model = status.get("modelStatus", {})
    state = model.get("transitionStatus", "")
    progress = f"{sum(map(is_ready, pods))} of {len(pods)} new pods ready"
    is_done = any(map(is_ready, pods)) and ready.get("status") == "True" and state not in _FAILED
    return RolloutStatus(
        pods, progress, is_done, _failed_load(state, model.get("lastFailureInfo", {}))
    )


def _present(cluster: Cluster, applied: Manifest, part: str) -> Manifest:
    existing = find(cluster, applied)
    if existing is None:
        raise Superseded(f"{named(applied)} was deleted in the meantime")
    if existing["spec"][part] != applied["spec"][part]:
        raise Superseded(f"{named(applied)} was changed by somebody else in the meantime")
    return existing


def _pods_of(cluster: Cluster, deployment: Manifest) -> list[Pod]:
    """Returns the pods of a Deployment's present revision."""
    metadata = deployment["metadata"]
    selector = deployment["spec"]["selector"]["matchLabels"]
    for replica_set in cluster.each(
        REPLICA_SETS, cluster.namespace, labelSelector=_selector(selector)
    ):
        revisions = {
            manifest["metadata"].get("annotations", {}).get(REVISION)
            for manifest in (replica_set, deployment)
        }
        if _is_owned_by(replica_set, metadata["uid"]) and len(revisions) == 1:
            pods = _living(cluster, replica_set["spec"]["selector"]["matchLabels"])
            return [pod for pod in pods if _is_owned_by(pod, replica_set["metadata"]["uid"])]
    return []


def _living(cluster: Cluster, labels: dict[str, str]) -> list[Pod]:
    pods = cluster.each(PODS, cluster.namespace, labelSelector=_selector(labels))
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def _selector(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _is_owned_by(owned: dict[str, Any], uid: str) -> bool:
    return any(owner["uid"] == uid for owner in owned["metadata"].get("ownerReferences") or [])


def _condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    conditions = status.get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == kind), {})


def _uncreated(status: dict[str, Any]) -> PodProblem | None:
    failure = _condition(status, "ReplicaFailure")
    if failure.get("status") != "True":
        return None
    return PodProblem(
        "uncreated", f"no pod can be created: {failure.get('message', '')}", UNCREATED
    )


def _failed_load(state: str, failure: dict[str, Any]) -> PodProblem | None:
    if state not in _FAILED:
        return None
    words = ": ".join(filter(None, [state, failure.get("reason"), failure.get("message")]))
    return PodProblem("load", f"KServe says {words}", UNCREATED)
