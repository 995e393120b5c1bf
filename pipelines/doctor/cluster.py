"""What a cluster has, as far as this user may see it; nothing is created there."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from trireme.components import images, secrets
from trireme.components.errors import TriremeError
from trireme.components.kubernetes import nodes
from trireme.components.kubernetes.access import may
from trireme.components.kubernetes.amounts import shown
from trireme.components.kubernetes.connection import Cluster
from trireme.components.kubernetes.errors import Forbidden, Refused
from trireme.components.kubernetes.resources import PODS, WORKFLOWS, Resource
from trireme.components.tracking.environment import SECRET
from trireme.components.training.cluster.checks import Finding, Verdict, is_there
from trireme.components.training.frameworks import KINDS
from trireme.components.training.manifests.references import Needed

DEPLOYMENTS = Resource("apps", "v1", "deployments")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses")
VERSION = Resource("", "v1", "version")

NONE = Decimal(0)
OVERLAYS = "kubectl apply -k manifests/overlays/NAME makes it, see docs/cluster.md"


class Part(NamedTuple):
    """What somebody else installs on a cluster.

    Attributes:
        title: What a person calls it.
        group: The API group that it brings.
        image: What the name of its controller's image ends with.
        allows: What Trireme does with it.
        mend: How it gets there.
    """

    title: str
    group: str
    image: str
    allows: str
    mend: str


PARTS = (
    Part(
        "Argo Workflows",
        "argoproj.io",
        "workflow-controller",
        "pipelines with --target argo; Kubeflow Pipelines runs on it, too",
        "https://argo-workflows.readthedocs.io/en/latest/installation/",
    ),
    Part(
        "JobSet",
        "jobset.x-k8s.io",
        "jobset",
        "Trainer's jobs",
        "it comes with Kubeflow Trainer",
    ),
    Part(
        "Kueue",
        "kueue.x-k8s.io",
        "kueue",
        "scheduling: {queue: NAME}",
        "https://kueue.sigs.k8s.io/docs/installation/",
    ),
    Part(
        "Volcano",
        "scheduling.volcano.sh",
        "vc-scheduler",
        "scheduling: {gang: true}",
        "https://volcano.sh/en/docs/installation/",
    ),
    Part(
        "KServe",
        "serving.kserve.io",
        "kserve-controller",
        "deploy: kserve",
        "https://kserve.github.io/website/",
    ),
    Part(
        "Prometheus Operator",
        "monitoring.coreos.com",
        "prometheus-operator",
        "manifests/parts/monitoring",
        "https://prometheus-operator.dev/",
    ),
    Part(
        "a metrics server",
        "metrics.k8s.io",
        "metrics-server",
        "trireme job top",
        "https://github.com/kubernetes-sigs/metrics-server",
    ),
)

SHARED = (
    *("nfs.csi.k8s.io", "nfs-subdir-external-provisioner", "efs.csi.aws.com", "fsx.csi.aws.com"),
    *("filestore.csi.storage.gke.io", "file.csi.azure.com", "nasplugin.csi.alibabacloud.com"),
    *("cephfs.csi.ceph.com", "driver.longhorn.io", "csi.juicefs.com", "csi-lustre"),
)
"""Ends of the names of provisioners whose volumes pods of several nodes can write at once."""

FOR_ONE_NODE = (
    *("ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com", "rbd.csi.ceph.com"),
    *("diskplugin.csi.alibabacloud.com", "rancher.io/local-path", "kubernetes.io/no-provisioner"),
    *("k8s.io/minikube-hostpath", "openebs.io/local", "topolvm.io"),
)
"""Likewise of those whose volumes one node has at a time."""


def findings(cluster: Cluster) -> Iterator[Finding]:
    """Yields what there is; ends where the API server does not answer."""
    served = _served(cluster)
    yield from _seen("nodes", lambda: [_nodes(cluster)])
    running = _controllers(cluster)
    yield from _kinds(cluster, served, running)
    for part in PARTS:
        yield _part(part, served, running)
    yield from _seen("storageclasses", lambda: list(_storage(cluster)))
    yield _rights(cluster)
    yield is_there(cluster, Needed("ServiceAccount", "trireme", optional=True))
    for name in (SECRET, *secrets.DEFAULTS.values()):
        yield is_there(cluster, Needed("Secret", name, optional=True))
    yield from _seen("nodes", lambda: list(_images(cluster)))


def version(cluster: Cluster) -> str:
    """Returns Kubernetes' version; raises what keeps the API server from answering."""
    return str(cluster.request("GET", VERSION, "/version")["gitVersion"])


def _served(cluster: Cluster) -> set[str]:
    """Returns the groups, and groups with versions, that the API server knows."""
    groups = cluster.request("GET", VERSION, "/apis").get("groups") or []
    return {group["name"] for group in groups} | {
        version["groupVersion"] for group in groups for version in group["versions"]
    }


def _seen(what: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return look()
    except Forbidden:
        return [Finding(Verdict.UNKNOWN, f"you may not list {what}")]


def _nodes(cluster: Cluster) -> Finding:
    free = [node for node in nodes.free(cluster) if not node.taints]
    if not free:
        return Finding(Verdict.FAILED, "no node takes pods that tolerate no taint")
    names = sorted({name for node in free for name in node.free if _is_shown(name)})
    left = ", ".join(
        f"{shown(name, sum((max(node.free.get(name, NONE), NONE) for node in free), NONE))} {name}"
        for name in names
    )
    return _ok(f"{len(free)} {'nodes take' if len(free) > 1 else 'node takes'} pods; free: {left}")


def _is_shown(resource: str) -> bool:
    return resource in ("cpu", "memory") or "/" in resource  # such as nvidia.com/gpu


def _controllers(cluster: Cluster) -> dict[str, str] | None:
    """Returns the images of all Deployments and whether they are ready; None: not to be seen."""
    try:
        found = cluster.items(DEPLOYMENTS, "")
    except Refused:
        return None
    return {
        container["image"]: _readiness(deployment)
        for deployment in found
        for container in deployment["spec"]["template"]["spec"]["containers"]
    }


def _readiness(deployment: dict[str, Any]) -> str:
    ready = deployment.get("status", {}).get("readyReplicas", 0)
    return "runs" if ready else "none of its pods is ready"


def _controller(image: str, running: dict[str, str] | None) -> tuple[Verdict, str]:
    """Says what is known of a controller by its image."""
    if running is None:
        return Verdict.OK, "you may not list deployments to see whether it runs"
    for name, readiness in running.items():
        repository, _, tag = name.partition("@")[0].rpartition(":")
        if repository.rpartition("/")[2].startswith(image) or repository.endswith(image):
            verdict = Verdict.OK if readiness == "runs" else Verdict.FAILED
            return verdict, f"{tag} {readiness}"
    return Verdict.UNKNOWN, "no Deployment of it is there: does it run?"


CONTROLLERS = {
    "kubeflow.org/v1": "training-operator",
    "kubeflow.org/v2beta1": "mpi-operator",
    "trainer.kubeflow.org/v1alpha1": "trainer-controller-manager",
}
"""The images of the operators, by the version of the API that they serve."""


def _kinds(cluster: Cluster, served: set[str], running: dict[str, str] | None) -> Iterator[Finding]:
    for version, image in CONTROLLERS.items():
        kinds = [kind for kind in KINDS.values() if kind.api_version == version]
        if not kinds:
            continue
        names = " and ".join(kind.name for kind in kinds) if len(kinds) < 3 else "jobs"
        found = _resources(cluster, version) if version in served else set()
        has = [kind.name for kind in kinds if kind.plural in found]
        if not has:
            yield Finding(Verdict.MISSING, f"{image} for {names}: install {kinds[0].provider}")
            continue
        verdict, words = _controller(image, running)
        yield Finding(verdict, f"{image}: {', '.join(has)}; {words}")


def _resources(cluster: Cluster, version: str) -> set[str]:
    answer = cluster.request("GET", VERSION, f"/apis/{version}")
    return {resource["name"] for resource in answer.get("resources") or []}


def _part(part: Part, served: set[str], running: dict[str, str] | None) -> Finding:
    if part.group not in served:
        return Finding(Verdict.MISSING, f"{part.title} for {part.allows}: {part.mend}")
    verdict, words = _controller(part.image, running)
    return Finding(verdict, f"{part.title}: {part.allows}; {words}")


def _storage(cluster: Cluster) -> Iterator[Finding]:
    found = cluster.items(STORAGE_CLASSES, "")
    if not found:
        yield Finding(
            Verdict.FAILED, "no StorageClass: a run's volume needs one; see docs/cluster.md"
        )
    for each in found:
        annotations = each["metadata"].get("annotations") or {}
        default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
        name = each["metadata"]["name"] + (", the default" if default else "")
        provisioner = each["provisioner"]
        if provisioner.endswith(SHARED):
            yield _ok(f"StorageClass {name}: pods of several nodes can share a volume")
        elif provisioner.endswith(FOR_ONE_NODE):
            words = "one node at a time has a volume; jobs of several pods need them on one node"
            yield Finding(Verdict.UNKNOWN, f"StorageClass {name}: {words}")
        else:
            words = f"whether pods of several nodes can share a volume of {provisioner} is unknown"
            yield Finding(Verdict.UNKNOWN, f"StorageClass {name}: {words}")


def _rights(cluster: Cluster) -> Finding:
    allowed = partial(may, cluster, cluster.namespace)
    wanted = [*KINDS.values(), WORKFLOWS]
    makes = [kind.plural for kind in wanted if allowed(kind, "", "create")]
    lacking = [kind.plural for kind in wanted if kind.plural not in makes]
    sees = all(allowed(PODS, part, verb) for part, verb in (("", "list"), ("log", "get")))
    if not (makes and sees):
        what = ", ".join(lacking) if not makes else "pods and their logs"
        verb = "create" if not makes else "read"
        words = f"you may not {verb} {what} in namespace {cluster.namespace}"
        return Finding(Verdict.FAILED, f"{words}; {OVERLAYS}")
    without = f", not {', '.join(lacking)}" if lacking else ""
    words = f"you may create {', '.join(makes)}{without} in namespace {cluster.namespace}"
    return _ok(words)


def _images(cluster: Cluster) -> Iterator[Finding]:
    """Says which images nodes have; what they could pull shows only a pod."""
    there = {
        name
        for node in cluster.items(nodes.NODES, "")
        for image in node.get("status", {}).get("images") or []
        for name in image.get("names") or []
    }
    for image in dict.fromkeys((images.BASE, *images.OF_REPLICAS, images.MLFLOW)):
        if image in there:
            yield _ok(f"image {image} is on a node")
        else:
            yield Finding(Verdict.UNKNOWN, f"image {image} is on no node yet")


def engine(title: str, look: Callable[[], str]) -> Finding:
    """Says whether what runs pipelines answers, by the sentence of ``look`` or of its error."""
    try:
        return _ok(look())
    except TriremeError as error:
        return Finding(Verdict.MISSING, f"{title}: {error}")


def _ok(sentence: str) -> Finding:
    return Finding(Verdict.OK, sentence)
