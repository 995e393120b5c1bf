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
        same = (
            volume["name"] for volume in volumes if volume == {"name": volume["name"], **source}
        )
        if (label := next(same, None)) is None:
            label = _label(name, {WORKSPACE_VOLUME, *(volume["name"] for volume in volumes)})
            volumes.append({"name": label, **source})
        self.shared["volumeMounts"].append({"name": label, "mountPath": path, **mount})

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
    return next(candidate for candidate in (label, *others) if candidate not in taken)


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
    result = Pod(
        shared,
        metadata.get("labels", {}),
        metadata.get("annotations", {}),
        [_name(secret, "secretName", step) for secret in config.get("imagePullSecret", [])],
        config.get("imagePullPolicy"),
        int(config.get("activeDeadlineSeconds", 0)) or None,
    )
    if security is not None:
        identity = {
            key: int(value) if key != "runAsNonRoot" else value for key, value in security.items()
        }
        result.security = identity | {"capabilities": {"drop": ["ALL"]}}
    _add_volumes(result, step)
    return result


def handed_on(task_pod: Pod, passthroughs: Mapping[str, bool]) -> dict[str, Any]:
    """Returns kfp's TaskConfig: what a task hands on; its own pod may be without it then."""
    config = {}
    for passthrough, is_kept in passthroughs.items():
        for name in _HANDED_ON[passthrough]:
            config[name] = task_pod.shared[name]
            if not is_kept:
                task_pod.shared[name] = {}
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
    requirements: dict[str, Any] = {}
    for side in ("Limit", "Request"):
        for kind, unit in (("Cpu", ""), ("Memory", "G")):
            old = resources.get(f"{kind.lower()}{side}")
            value = resources.get(f"resource{kind}{side}") or (f"{whole(old)}{unit}" if old else "")
            if value:
                requirements.setdefault(f"{side.lower()}s", {})[kind.lower()] = text(value)
    if "accelerator" in resources:
        accelerator = resources["accelerator"]
        kind = text(accelerator.get("resourceType") or accelerator.get("type", ""))
        count = text(accelerator.get("resourceCount") or str(accelerator.get("count", "")))
        requirements.setdefault("limits", {})[kind] = count
    return requirements


def _env(step: Container) -> list[dict[str, Any]]:
    variables: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, value in step.step.variables.items()
    ]
    for field_env in step.step.pod.get("fieldPathAsEnv", []):
        source = {"fieldRef": {"fieldPath": field_env["fieldPath"]}}
        variables.append({"name": field_env["name"], "valueFrom": source})
    for kind, key in (("secret", "secretKey"), ("configMap", "configMapKey")):
        for keys in step.step.pod.get(f"{kind}AsEnv", []):
            name = _name(keys, f"{kind}Name", step)
            optional = {"optional": keys["optional"]} if "optional" in keys else {}
            for pair in keys["keyToEnv"]:
                source = {f"{kind}KeyRef": {"name": name, "key": pair[key], **optional}}
                variables.append({"name": pair["envVar"], "valueFrom": source})
    return variables


def _add_volumes(task_pod: Pod, step: Container) -> None:
    config = step.step.pod
    for index, mount in enumerate(config.get("pvcMount", []), 1):
        name = _known(step.refer(_claim(mount)))
        source = {"persistentVolumeClaim": {"claimName": name}}
        # The volume is called like the claim, as on Kubeflow, where that is known by now.
        volume = name if isinstance(name, str) else f"claim-{index}"
        task_pod.add_volume(volume, source, mount["mountPath"], **_if_given(mount, "subPath"))
    for kind, field_name in (("secret", "secretName"), ("configMap", "name")):
        for index, mount in enumerate(config.get(f"{kind}AsVolume", []), 1):
            name = _name(mount, f"{kind}Name", step)
            source = {kind: {field_name: name, "optional": mount.get("optional", False)}}
            volume = name if isinstance(name, str) else f"{kind.lower()}-{index}"
            task_pod.add_volume(volume, source, mount["mountPath"])
    for mount in config.get("emptyDirMounts", []):
        source = {"emptyDir": _if_given(mount, "medium", "sizeLimit")}
        task_pod.add_volume(mount["volumeName"], source, mount["mountPath"])
    if "enabledSharedMemory" in config:
        shared = config["enabledSharedMemory"]
        source = {"emptyDir": {"medium": "Memory"}}
        if shared.get("size"):
            source["emptyDir"]["sizeLimit"] = shared["size"]
        task_pod.add_volume(shared.get("volumeName", "shm"), source, "/dev/shm")
    for claim in config.get("genericEphemeralVolume", []):
        claim_spec = {
            "accessModes": claim["accessModes"],
            "resources": {"requests": {"storage": claim["size"]}},
        }
        if not claim.get("defaultStorageClass"):
            claim_spec["storageClassName"] = claim.get("storageClassName", "")
        template = {"metadata": claim.get("metadata", {}), "spec": claim_spec}
        source = {"ephemeral": {"volumeClaimTemplate": template}}
        task_pod.add_volume(claim["volumeName"], source, claim["mountPath"])


def _claim(mount: dict[str, Any]) -> dict[str, Any]:
    """Returns what a mount's claim is named by; older files say it in another place."""
    if "pvcNameParameter" in mount:
        return dict(mount["pvcNameParameter"])
    if "constant" in mount:
        return {"runtimeValue": {"constant": mount["constant"]}}
    return _if_given(mount, "taskOutputParameter", "componentInputParameter")


def _tolerations(step: Container) -> list[Any] | Value:
    tolerations: list[dict[str, Any]] = []
    later = []
    for toleration in step.step.pod.get("tolerations", []):
        if "tolerationJson" in toleration:
            later.append(step.refer(toleration["tolerationJson"]).native)
        else:
            seconds = {
                key: int(toleration[key]) for key in ("tolerationSeconds",) if key in toleration
            }
            tolerations.append(toleration | seconds)
    if not later:
        return tolerations
    # Each is a toleration, a list of them, or null.
    lists = [f"(type({ref}) == 'array' ? {ref} : {ref} == nil ? [] : [{ref}])" for ref in later]
    return Value(f"concat({', '.join([native(tolerations), *lists])})")


def _affinity(step: Container) -> dict[str, Any] | Value:
    config = step.step.pod
    nodes = config.get("nodeAffinity", [])
    by_name = [rule["nodeAffinityJson"] for rule in nodes if "nodeAffinityJson" in rule]
    if by_name:
        if len(nodes) > 1 or "podAffinity" in config:
            raise NotOnArgo(f"task {step.name}", "an affinity given as JSON besides another one")
        return to_value({"nodeAffinity": step.refer(by_name[0])})
    affinities: dict[str, Any] = {}
    for rule in nodes:
        term = _if_given(rule, "matchExpressions", "matchFields")
        affinity = affinities.setdefault("nodeAffinity", {})
        if "weight" in rule:
            _preferred(affinity).append({"weight": rule["weight"], "preference": term})
        else:
            required = affinity.setdefault(f"required{_WHEN}", {"nodeSelectorTerms": []})
            required["nodeSelectorTerms"].append(term)
    for rule in config.get("podAffinity", []):
        term = _pod_term(rule)
        affinity = affinities.setdefault(
            "podAntiAffinity" if rule.get("anti") else "podAffinity", {}
        )
        if "weight" in rule:
            _preferred(affinity).append({"weight": rule["weight"], "podAffinityTerm": term})
        else:
            affinity.setdefault(f"required{_WHEN}", []).append(term)
    return affinities


_WHEN = "DuringSchedulingIgnoredDuringExecution"


def _preferred(affinity: dict[str, Any]) -> list[dict[str, Any]]:
    preferred: list[dict[str, Any]] = affinity.setdefault(f"preferred{_WHEN}", [])
    return preferred


def _pod_term(rule: dict[str, Any]) -> dict[str, Any]:
    term: dict[str, Any] = {"topologyKey": rule["topologyKey"]} | _if_given(rule, "namespaces")
    for field_name, labels, expressions in (
        ("labelSelector", "matchPodLabels", "matchPodExpressions"),
        ("namespaceSelector", "matchNamespaceLabels", "matchNamespaceExpressions"),
    ):
        selector = {"matchLabels": rule.get(labels), "matchExpressions": rule.get(expressions)}
        selector = {key: value for key, value in selector.items() if value}
        if selector:
            term[field_name] = selector
    return term


def _if_given(source: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: source[name] for name in names if source.get(name)}
