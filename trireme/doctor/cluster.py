"""A look at a cluster, as far as this user may see it; nothing is created there."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

from trireme import images
from trireme.credentials import secrets
from trireme.doctor import Fact, Verdict, ok
from trireme.errors import TriremeError
from trireme.frameworks import KINDS
from trireme.kubernetes import nodes, pods
from trireme.kubernetes.access import may
from trireme.kubernetes.amounts import shown
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.errors import Forbidden, Refused
from trireme.kubernetes.resources import DEPLOYMENTS, PODS, WORKFLOWS, Resource
from trireme.manifests.references import Needed
from trireme.runner.cluster.checks import Verdict as Seen
from trireme.runner.cluster.checks import is_there
from trireme.runner.cluster.usage import POD_METRICS
from trireme.tracking.environment import SECRET

STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses")
VERSION = Resource("", "v1", "version")

NONE = Decimal(0)
RUNS = "runs"  # what is said of a Deployment that does
OVERLAYS = "kubectl apply -k manifests/overlays/NAME makes it, see docs/how-to/set-up-a-cluster.md"


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
        "pipelines with --target argo",
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

RIGHTS = {
    WORKFLOWS.group: (WORKFLOWS, "create"),
    "jobset.x-k8s.io": (KINDS["TrainJob"], "create"),
    POD_METRICS.group: (POD_METRICS, "list"),
}
"""What a user must have the right to, so that a part allows something, by its group."""

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


def facts(cluster: Cluster) -> Iterator[Fact]:
    """Yields what there is; ends where the API server does not answer."""
    served = _served(cluster)
    yield from _seen("nodes and their pods", lambda: [_nodes(cluster)])
    running = _controllers(cluster)
    makes = _made(cluster, served)
    yield from _kinds(cluster, makes, running)
    for part in PARTS:
        # Argo CD has the same group.
        has_it = part.group in served and (part.group != WORKFLOWS.group or WORKFLOWS in makes)
        yield _part(cluster, part, has_it, running)
    yield from _seen("storageclasses", lambda: list(_storage(cluster)))
    if makes:
        yield _rights(cluster, makes)
    yield from _objects(cluster)
    yield from _seen("nodes and their images", lambda: list(_images(cluster)))


def version(cluster: Cluster) -> str:
    """Returns Kubernetes' version; raises what keeps the API server from answering."""
    return str(cluster.request("GET", VERSION, "/version")["gitVersion"])


def _served(cluster: Cluster) -> set[str]:
    """Returns the groups, and groups with versions, that the API server knows."""
    groups = cluster.request("GET", VERSION, "/apis").get("groups") or []
    return {group["name"] for group in groups} | {
        version["groupVersion"] for group in groups for version in group["versions"]
    }


def _seen(kind: str, look: Callable[[], list[Fact]]) -> list[Fact]:
    try:
        return look()
    except Forbidden:
        return [Fact(Verdict.UNKNOWN, f"you may not list {kind}")]


def _nodes(cluster: Cluster) -> Fact:
    free = [node for node in nodes.free(cluster) if not node.taints]
    if not free:
        return Fact(Verdict.FAILED, "no node takes pods that tolerate no taint")
    names = sorted({name for node in free for name in node.free if _is_shown(name)})
    amounts = ", ".join(
        f"{shown(name, sum((max(node.free.get(name, NONE), NONE) for node in free), NONE))} {name}"
        for name in names
    )
    return ok(
        f"{len(free)} {'nodes take' if len(free) > 1 else 'node takes'} pods; free: {amounts}"
    )


def _is_shown(resource: str) -> bool:
    return resource in ("cpu", "memory") or "/" in resource  # such as nvidia.com/gpu


def _controllers(cluster: Cluster) -> dict[str, str] | None:
    """Returns the images of all Deployments and whether they are ready; None: not to be seen."""
    try:
        deployments = cluster.items(DEPLOYMENTS, "")
    except Refused:
        return None
    images: dict[str, str] = {}
    for deployment in deployments:
        readiness = _readiness(cluster, deployment)
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            if images.get(container["image"], RUNS) == RUNS:  # Argo and Kubeflow may have one each
                images[container["image"]] = readiness
    return images


def _readiness(cluster: Cluster, deployment: dict[str, Any]) -> str:
    """Says whether a Deployment runs, or what its pods lack as far as this user may see them."""
    if deployment.get("status", {}).get("readyReplicas"):
        return RUNS
    namespace = deployment["metadata"]["namespace"]
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    selector = ",".join(f"{name}={value}" for name, value in labels.items())
    reason = ""
    with suppress(Refused):
        members = cluster.items(PODS, namespace, labelSelector=selector)
        reason = next(filter(None, map(pods.waiting_reason, members)), "")
    return pods.joined(f"none of its pods in namespace {namespace} is ready", reason)


def _controller(image: str, running: dict[str, str] | None) -> tuple[Verdict, str]:
    """Says what is known of a controller by its image."""
    if running is None:
        return Verdict.OK, "you may not list deployments to see whether it runs"
    for name, readiness in running.items():
        repository, _, last = name.partition("@")[0].rpartition("/")
        last, _, tag = last.partition(":")
        if last.startswith(image) or f"{repository}/{last}".endswith(image):
            verdict = Verdict.OK if readiness == RUNS else Verdict.FAILED
            return verdict, f"{tag} {readiness}".strip()
    return Verdict.UNKNOWN, "no Deployment of it is there: does it run?"


CONTROLLERS = {
    "kubeflow.org/v1": "training-operator",
    "kubeflow.org/v2beta1": "mpi-operator",
    "trainer.kubeflow.org/v1alpha1": "trainer-controller-manager",
}
"""The images of the operators, by the version of the API that they serve."""


def _made(cluster: Cluster, served: set[str]) -> list[Resource]:
    """Returns what Trireme makes, as far as the cluster has it."""
    kinds: tuple[Resource, ...] = (*KINDS.values(), WORKFLOWS)
    versions = {kind.api_version for kind in kinds} & served
    by_version = {version: _resources(cluster, version) for version in versions}
    return [kind for kind in kinds if kind.plural in by_version.get(kind.api_version, ())]


def _kinds(
    cluster: Cluster, makes: list[Resource], running: dict[str, str] | None
) -> Iterator[Fact]:
    for version, image in CONTROLLERS.items():
        kinds = [kind for kind in KINDS.values() if kind.api_version == version]
        names = " and ".join(kind.name for kind in kinds) if len(kinds) < 3 else "jobs"
        has = [kind for kind in kinds if kind in makes]
        if not has:
            yield Fact(Verdict.MISSING, f"{image} for {names}: install {kinds[0].provider}")
            continue
        allowed = [kind.name for kind in has if _may_create(cluster, kind)]
        verdict, words = _controller(image, running)
        yield Fact(verdict, f"{image}: {words}", allows=", ".join(allowed))


def _resources(cluster: Cluster, version: str) -> set[str]:
    answer = cluster.request("GET", VERSION, f"/apis/{version}")
    return {resource["name"] for resource in answer.get("resources") or []}


def _part(cluster: Cluster, part: Part, has_it: bool, running: dict[str, str] | None) -> Fact:
    if not has_it:
        return Fact(Verdict.MISSING, f"{part.title} for {part.allows}: {part.mend}")
    verdict, words = _controller(part.image, running)
    resource, verb = RIGHTS.get(part.group, (None, ""))
    allowed = resource is None or may(cluster, cluster.namespace, resource, "", verb)
    return Fact(verdict, f"{part.title}: {words}", allows=part.allows if allowed else "")


def _storage(cluster: Cluster) -> Iterator[Fact]:
    classes = cluster.items(STORAGE_CLASSES, "")
    if not classes:
        yield Fact(
            Verdict.FAILED,
            "no StorageClass: a run's volume needs one; see docs/how-to/set-up-a-cluster.md",
        )
    for storage_class in classes:
        annotations = storage_class["metadata"].get("annotations") or {}
        default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
        name = storage_class["metadata"]["name"] + (", the default" if default else "")
        provisioner = storage_class["provisioner"]
        if provisioner.endswith(SHARED):
            yield ok(f"StorageClass {name}: pods of several nodes can share a volume")
        elif provisioner.endswith(FOR_ONE_NODE):
            words = "one node at a time has a volume; jobs of several pods need them on one node"
            yield Fact(Verdict.UNKNOWN, f"StorageClass {name}: {words}")
        else:
            words = f"whether pods of several nodes can share a volume of {provisioner} is unknown"
            yield Fact(Verdict.UNKNOWN, f"StorageClass {name}: {words}")


def _rights(cluster: Cluster, kinds: list[Resource]) -> Fact:
    makes = [kind.plural for kind in kinds if _may_create(cluster, kind)]
    lacking = [f"create {kind.plural}" for kind in kinds if kind.plural not in makes]
    for part, verb, words in (("", "list", "list pods"), ("log", "get", "read their logs")):
        if not may(cluster, cluster.namespace, PODS, part, verb):
            lacking.append(words)
    where = f"in namespace {cluster.namespace}"
    if lacking:
        verdict = Verdict.MISSING if makes else Verdict.FAILED
        mend = "manifests/base/rights has a Role that allows it, to be bound to you"
        return Fact(verdict, f"you may not {', '.join(lacking)} {where}; {mend}")
    return ok(f"you may create {', '.join(makes)} {where}, and see their pods")


def _may_create(cluster: Cluster, kind: Resource) -> bool:
    return may(cluster, cluster.namespace, kind, "", "create")


STEPS = "trireme"  # the service account

OBJECTS = {
    ("ServiceAccount", STEPS): "the steps of --target argo run as it, or as "
    f"--service-account says; {OVERLAYS}",
    ("Secret", SECRET): "without MLFLOW_TRACKING_URI in it runs are recorded nowhere, but for "
    "Kubeflow's own plugin; manifests/secrets.sh makes it",
}
"""What a namespace should have, and why."""


def _objects(cluster: Cluster) -> Iterator[Fact]:
    for (kind, name), why in OBJECTS.items():
        finding = is_there(cluster, Needed(kind, name))
        if finding.verdict is Seen.FAILED:
            yield Fact(Verdict.MISSING, f"{kind} {name}: {why}")
        else:
            yield Fact(Verdict(finding.verdict), finding.sentence)
    names = secrets.DEFAULTS.values()
    if has := [
        name for name in names if is_there(cluster, Needed("Secret", name)).verdict is Seen.OK
    ]:
        yield ok(f"Secrets {', '.join(has)}")


def account_of_steps(cluster: Cluster) -> str:
    """Returns the service account that steps run as; empty where it is not to be seen."""
    finding = is_there(cluster, Needed("ServiceAccount", STEPS))
    return STEPS if finding.verdict is Seen.OK else ""


def _images(cluster: Cluster) -> Iterator[Fact]:
    """Says which images nodes have; what they could pull shows only a pod."""
    on_nodes = {
        name
        for node in cluster.items(nodes.NODES, "")
        for image in node.get("status", {}).get("images") or []
        for name in image.get("names") or []
    }
    needed = list(dict.fromkeys((images.BASE, *images.OF_REPLICAS)))
    versions = {images.VERSION, images.for_gpus(images.VERSION)}
    tagged = (name for name in on_nodes if images.is_ours(name) and "@" not in name)
    if others := sorted(name for name in tagged if name.rpartition(":")[2] not in versions):
        yield Fact(
            Verdict.MISSING,
            f"images of another version than this Trireme, {images.VERSION}, on a node: "
            f"{', '.join(others)}; steps have to be of the version that compiled them: build "
            f"those of {images.VERSION}, or install the version of Trireme that these have",
        )
    if has := [image for image in needed if image in on_nodes]:
        yield ok(f"images on a node: {', '.join(has)}")
    if missing := [image for image in needed if image not in on_nodes]:
        words = (
            f"images on no node yet: {', '.join(missing)}; docs/how-to/build-images.md says how to "
            "build them, and --probe tries to pull them"
        )
        yield Fact(Verdict.UNKNOWN, words)


def kubeflow(host: Callable[[], str]) -> Fact:
    """Says whether Kubeflow Pipelines answers, by what asks it, which returns its address."""
    try:
        words = f"Kubeflow Pipelines at {host()}"
    except TriremeError as error:
        return Fact(
            Verdict.MISSING,
            f"Kubeflow Pipelines for --target kfp: {error}; see docs/how-to/kubeflow.md",
        )
    return Fact(Verdict.OK, words, allows="pipelines with --target kfp")
