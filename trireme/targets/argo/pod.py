"""The pod of a step, as a pipeline asks for it: resources, variables, volumes, placement.

What kfp-kubernetes writes is in
https://github.com/kubeflow/pipelines/blob/master/kubernetes_platform/proto/kubernetes_executor_config.proto
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trireme.targets.argo.expressions import Constant, Value, name_value, native, to_value
from trireme.targets.argo.placeholders import WORKSPACE
from trireme.targets.argo.refusals import NotOnArgo, only
from trireme.targets.argo.steps import Container
from trireme.text.json_values import whole

WORKSPACE_VOLUME = "workspace"

_KNOWN = (
    *("secretAsVolume", "secretAsEnv", "configMapAsVolume", "configMapAsEnv", "fieldPathAsEnv"),
    *("pvcMount", "emptyDirMounts", "enabledSharedMemory", "genericEphemeralVolume"),
    *("nodeSelector", "tolerations", "nodeAffinity", "podAffinity"),
    *("podMetadata", "imagePullSecret", "imagePullPolicy"),
    *("activeDeadlineSeconds", "securityContext"),
)

_HANDED_ON = {
    "RESOURCES": ("resources",),
    "ENV": ("env",),
    "KUBERNETES_TOLERATIONS": ("tolerations",),
    "KUBERNETES_NODE_SELECTOR": ("nodeSelector",),
    "KUBERNETES_AFFINITY": ("affinity",),
    "KUBERNETES_VOLUMES": ("volumes", "volumeMounts"),
}
"""The fields of kfp's TaskConfig that each of its passthroughs stands for."""

LONGEST_LABEL = 63  # characters of a DNS label


@dataclass
class Pod:
    """What a step's pod is to be like; ``shared`` is what a step may hand on to a workload."""

    shared: dict[str, Any]
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    pull_secrets: list[Any] = field(default_factory=list)
    pull_policy: str | None = None
    deadline: int | None = None
    security: dict[str, Any] | None = None

    def add_volume(self, name: str, source: dict[str, Any], path: str, **mount: str) -> None:
        """Adds a volume, unless it has it, and where it is mounted."""
        volumes = self.shared["volumes"]
        same = (each["name"] for each in volumes if each == {"name": each["name"], **source})
        if (found := next(same, None)) is None:
            found = _label(name, {WORKSPACE_VOLUME, *(each["name"] for each in volumes)})
            volumes.append({"name": found, **source})
        self.shared["volumeMounts"].append({"name": found, "mountPath": path, **mount})

    def add_workspace(self) -> None:
        """Mounts the run workspace."""
        claim = {"claimName": name_value(f"workflow.name + '-{WORKSPACE_VOLUME}'")}
        volume = {"name": WORKSPACE_VOLUME, "persistentVolumeClaim": claim}
        self.shared["volumes"].append(volume)
        self.shared["volumeMounts"].append({"name": WORKSPACE_VOLUME, "mountPath": WORKSPACE})


def _label(name: str, taken: set[str]) -> str:
    """Returns the name of a volume, a DNS label, that no other has."""
    label = re.sub(r"[^a-z0-9-]+", "-", name)[:LONGEST_LABEL].strip("-")
    others = (f"{label[: LONGEST_LABEL - 4]}-{number}" for number in range(2, 1000))
    return next(each for each in (label, *others) if each not in taken)


def pod(step: Container) -> Pod:
    """Returns the pod of a step, by kfp-kubernetes' ``KubernetesExecutorConfig``."""
    config = step.step.pod
    only(_KNOWN, config, f"task {step.name}")
    shared: dict[str, Any] = {"resources": _resources(step)}
    shared |= {"env": _env(step), "volumes": [], "volumeMounts": []}
    shared["tolerations"] = _tolerations(step)
    selector = config.get("nodeSelector", {})
    by_name = selector.get("nodeSelectorJson")
    shared["nodeSelector"] = step.refer(by_name) if by_name else selector.get("labels", {})
    shared["affinity"] = _affinity(step)
    metadata, security = config.get("podMetadata", {}), config.get("securityContext")
    made = Pod(
        shared,
        metadata.get("labels", {}),
        metadata.get("annotations", {}),
        [_name(each, "secretName", step) for each in config.get("imagePullSecret", [])],
        config.get("imagePullPolicy"),
        int(config.get("activeDeadlineSeconds", 0)) or None,
    )
    if security is not None:
        identity = {
            key: int(value) if key != "runAsNonRoot" else value for key, value in security.items()
        }
        made.security = identity | {"capabilities": {"drop": ["ALL"]}}
    _add_volumes(made, step)
    return made


def handed_on(made: Pod, passthroughs: Mapping[str, bool]) -> dict[str, Any]:
    """Returns kfp's TaskConfig: what a task hands on; its own pod may be without it then."""
    config = {}
    for passthrough, is_kept in passthroughs.items():
        for name in _HANDED_ON[passthrough]:
            config[name] = made.shared[name]
            if not is_kept:
                made.shared[name] = {}
    return config


def _name(source: dict[str, Any], field_name: str, step: Container) -> Any:
    """Returns the name of a Secret, ConfigMap or claim."""
    reference = source.get(f"{field_name}Parameter")
    if reference is None:
        return source[field_name]
    return _known(step.refer(reference))


def _known(value: Value) -> Any:
    return value.value if isinstance(value, Constant) else value


def _resources(step: Container) -> dict[str, Any]:
    resources, text = step.step.resources, step.text
    made: dict[str, Any] = {}
    for side in ("Limit", "Request"):
        for kind, unit in (("Cpu", ""), ("Memory", "G")):
            old = resources.get(f"{kind.lower()}{side}")
            given = resources.get(f"resource{kind}{side}") or (f"{whole(old)}{unit}" if old else "")
            if given:
                made.setdefault(f"{side.lower()}s", {})[kind.lower()] = text(given)
    if "accelerator" in resources:
        accelerator = resources["accelerator"]
        kind = text(accelerator.get("resourceType") or accelerator.get("type", ""))
        count = text(accelerator.get("resourceCount") or str(accelerator.get("count", "")))
        made.setdefault("limits", {})[kind] = count
    return made


def _env(step: Container) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, value in step.step.variables.items()
    ]
    for each in step.step.pod.get("fieldPathAsEnv", []):
        source = {"fieldRef": {"fieldPath": each["fieldPath"]}}
        made.append({"name": each["name"], "valueFrom": source})
    for kind, key in (("secret", "secretKey"), ("configMap", "configMapKey")):
        for each in step.step.pod.get(f"{kind}AsEnv", []):
            name = _name(each, f"{kind}Name", step)
            optional = {"optional": each["optional"]} if "optional" in each else {}
            for pair in each["keyToEnv"]:
                source = {f"{kind}KeyRef": {"name": name, "key": pair[key], **optional}}
                made.append({"name": pair["envVar"], "valueFrom": source})
    return made


def _add_volumes(made: Pod, step: Container) -> None:
    config = step.step.pod
    for index, each in enumerate(config.get("pvcMount", []), 1):
        name = _known(step.refer(_claim(each)))
        source = {"persistentVolumeClaim": {"claimName": name}}
        # The volume is called like the claim, as on Kubeflow, where that is known by now.
        volume = name if isinstance(name, str) else f"claim-{index}"
        made.add_volume(volume, source, each["mountPath"], **_if_given(each, "subPath"))
    for kind, field_name in (("secret", "secretName"), ("configMap", "name")):
        for index, each in enumerate(config.get(f"{kind}AsVolume", []), 1):
            name = _name(each, f"{kind}Name", step)
            source = {kind: {field_name: name, "optional": each.get("optional", False)}}
            volume = name if isinstance(name, str) else f"{kind.lower()}-{index}"
            made.add_volume(volume, source, each["mountPath"])
    for each in config.get("emptyDirMounts", []):
        source = {"emptyDir": _if_given(each, "medium", "sizeLimit")}
        made.add_volume(each["volumeName"], source, each["mountPath"])
    if "enabledSharedMemory" in config:
        shared = config["enabledSharedMemory"]
        source = {"emptyDir": {"medium": "Memory"}}
        if shared.get("size"):
            source["emptyDir"]["sizeLimit"] = shared["size"]
        made.add_volume(shared.get("volumeName", "shm"), source, "/dev/shm")
    for each in config.get("genericEphemeralVolume", []):
        claim_spec = {
            "accessModes": each["accessModes"],
            "resources": {"requests": {"storage": each["size"]}},
        }
        if not each.get("defaultStorageClass"):
            claim_spec["storageClassName"] = each.get("storageClassName", "")
        template = {"metadata": each.get("metadata", {}), "spec": claim_spec}
        source = {"ephemeral": {"volumeClaimTemplate": template}}
        made.add_volume(each["volumeName"], source, each["mountPath"])


def _claim(mount: dict[str, Any]) -> dict[str, Any]:
    """Returns what a mount's claim is named by; older files say it in another place."""
    if "pvcNameParameter" in mount:
        return dict(mount["pvcNameParameter"])
    if "constant" in mount:
        return {"runtimeValue": {"constant": mount["constant"]}}
    return _if_given(mount, "taskOutputParameter", "componentInputParameter")


def _tolerations(step: Container) -> list[Any] | Value:
    known: list[dict[str, Any]] = []
    later = []
    for each in step.step.pod.get("tolerations", []):
        if "tolerationJson" in each:
            later.append(step.refer(each["tolerationJson"]).native)
        else:
            seconds = {key: int(each[key]) for key in ("tolerationSeconds",) if key in each}
            known.append(each | seconds)
    if not later:
        return known
    # Each is a toleration, a list of them, or null.
    lists = [f"(type({one}) == 'array' ? {one} : {one} == nil ? [] : [{one}])" for one in later]
    return Value(f"concat({', '.join([native(known), *lists])})")


def _affinity(step: Container) -> dict[str, Any] | Value:
    config = step.step.pod
    nodes = config.get("nodeAffinity", [])
    by_name = [each["nodeAffinityJson"] for each in nodes if "nodeAffinityJson" in each]
    if by_name:
        if len(nodes) > 1 or "podAffinity" in config:
            raise NotOnArgo(f"task {step.name}", "an affinity given as JSON besides another one")
        return to_value({"nodeAffinity": step.refer(by_name[0])})
    made: dict[str, Any] = {}
    for each in nodes:
        term = _if_given(each, "matchExpressions", "matchFields")
        affinity = made.setdefault("nodeAffinity", {})
        if "weight" in each:
            _preferred(affinity).append({"weight": each["weight"], "preference": term})
        else:
            required = affinity.setdefault(f"required{_WHEN}", {"nodeSelectorTerms": []})
            required["nodeSelectorTerms"].append(term)
    for each in config.get("podAffinity", []):
        term = _pod_term(each)
        affinity = made.setdefault("podAntiAffinity" if each.get("anti") else "podAffinity", {})
        if "weight" in each:
            _preferred(affinity).append({"weight": each["weight"], "podAffinityTerm": term})
        else:
            affinity.setdefault(f"required{_WHEN}", []).append(term)
    return made


_WHEN = "DuringSchedulingIgnoredDuringExecution"


def _preferred(affinity: dict[str, Any]) -> list[dict[str, Any]]:
    preferred: list[dict[str, Any]] = affinity.setdefault(f"preferred{_WHEN}", [])
    return preferred


def _pod_term(each: dict[str, Any]) -> dict[str, Any]:
    term: dict[str, Any] = {"topologyKey": each["topologyKey"]} | _if_given(each, "namespaces")
    for field_name, labels, expressions in (
        ("labelSelector", "matchPodLabels", "matchPodExpressions"),
        ("namespaceSelector", "matchNamespaceLabels", "matchNamespaceExpressions"),
    ):
        selector = {"matchLabels": each.get(labels), "matchExpressions": each.get(expressions)}
        selector = {key: value for key, value in selector.items() if value}
        if selector:
            term[field_name] = selector
    return term


def _if_given(source: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: source[name] for name in names if source.get(name)}
