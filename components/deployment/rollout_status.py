"""How far a new version of a Deployment or of an InferenceService is."""

from typing import Any

from trireme.components.deployment import objects
from trireme.components.deployment.objects import REVISION, Manifest, find, named
from trireme.components.deployment.pod_problems import UNCREATED, Pod, PodProblem
from trireme.components.deployment.rollout import RolloutStatus, Superseded, is_ready
from trireme.components.kubernetes.access import Right
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.resources import PODS, Resource

REPLICA_SETS = Resource("apps", "v1", "replicasets")

# https://kserve.github.io/website/docs/reference/crd-api#servingkserveiov1beta1
_FAILED = ("InvalidSpec", "BlockedByFailedLoad")


def rights(kind: str) -> list[Right]:
    """Returns what has to be allowed to whoever deploys a model."""
    if kind == "kserve":
        return objects.rights(["InferenceService"], ())
    return objects.rights(["Deployment", "Service"], (REPLICA_SETS,))


def at_deployment(cluster: Cluster, applied: Manifest) -> RolloutStatus:
    """Looks at a Deployment, as ``kubectl rollout status`` does."""
    there = _present(cluster, applied, "template")
    status, wanted = there.get("status", {}), there["spec"]["replicas"]
    if status.get("observedGeneration", 0) < there["metadata"]["generation"]:
        return RolloutStatus([], "waiting for the cluster to take it up")
    pods = _pods_of(cluster, there)
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    old = status.get("replicas", 0) - updated
    ready = sum(map(is_ready, pods))
    progress = f"{ready} of {wanted} new pods ready" + (f", {old} old" if old > 0 else "")
    is_done = updated >= wanted and old <= 0 and available >= updated
    return RolloutStatus(pods, progress, is_done, _uncreated(status))


def at_inference_service(cluster: Cluster, applied: Manifest) -> RolloutStatus:
    """Looks at an InferenceService.

    Its own Ready may still be that of the version before, and its observedGeneration is that of
    an object below it: only a pod with the new version's labels is surely a new one.
    https://github.com/kserve/kserve/blob/v0.15.0/pkg/apis/serving/v1beta1/inference_service_status.go
    """
    there = _present(cluster, applied, "predictor")
    labels = there["spec"]["predictor"]["labels"] | {
        "serving.kserve.io/inferenceservice": there["metadata"]["name"]
    }
    pods = _living(cluster, labels)
    status = there.get("status", {})
    ready = _condition(status, "Ready")
    model = status.get("modelStatus", {})
    state = model.get("transitionStatus", "")
    progress = f"{sum(map(is_ready, pods))} of {len(pods)} new pods ready"
    is_done = any(map(is_ready, pods)) and ready.get("status") == "True" and state not in _FAILED
    return RolloutStatus(
        pods, progress, is_done, _failed_load(state, model.get("lastFailureInfo", {}))
    )


def _present(cluster: Cluster, applied: Manifest, part: str) -> Manifest:
    there = find(cluster, applied)
    if there is None:
        raise Superseded(f"{named(applied)} was deleted meanwhile")
    if there["spec"][part] != applied["spec"][part]:
        raise Superseded(f"{named(applied)} was changed by somebody else meanwhile")
    return there


def _pods_of(cluster: Cluster, deployment: Manifest) -> list[Pod]:
    """Returns the pods of a Deployment's present revision."""
    metadata = deployment["metadata"]
    selector = deployment["spec"]["selector"]["matchLabels"]
    sets = cluster.list(REPLICA_SETS, cluster.namespace, labelSelector=_selector(selector))
    for one in sets.get("items") or []:
        revisions = {
            each["metadata"].get("annotations", {}).get(REVISION) for each in (one, deployment)
        }
        if _is_owned_by(one, metadata["uid"]) and len(revisions) == 1:
            found = _living(cluster, one["spec"]["selector"]["matchLabels"])
            return [pod for pod in found if _is_owned_by(pod, one["metadata"]["uid"])]
    return []


def _living(cluster: Cluster, labels: dict[str, str]) -> list[Pod]:
    listing = cluster.list(PODS, cluster.namespace, labelSelector=_selector(labels))
    pods = listing.get("items") or []
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def _selector(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _is_owned_by(thing: dict[str, Any], uid: str) -> bool:
    return any(owner["uid"] == uid for owner in thing["metadata"].get("ownerReferences") or [])


def _condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    conditions = status.get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def _uncreated(status: dict[str, Any]) -> PodProblem | None:
    failure = _condition(status, "ReplicaFailure")
    if failure.get("status") != "True":
        return None
    return PodProblem("uncreated", f"no pod can be made: {failure.get('message', '')}", UNCREATED)


def _failed_load(state: str, failure: dict[str, Any]) -> PodProblem | None:
    if state not in _FAILED:
        return None
    words = ": ".join(filter(None, [state, failure.get("reason"), failure.get("message")]))
    return PodProblem("load", f"KServe says {words}", UNCREATED)
