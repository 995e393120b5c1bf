"""What the operators demand of a manifest beyond its schema, read in their sources.

Each function returns sentences on what would be refused or would not work; none: it is right.
"""

import re
from typing import Any

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
CLEAN_UP = {"None", "Running", "All"}

# training-operator v1.9.0 pkg/apis/kubeflow.org/v1/common_types.go; mpi-operator v0.8.0
# pkg/apis/kubeflow/validation/validation.go
RESTARTS = {"Never", "OnFailure", "Always", "ExitCode"}
RESTARTS_OF_MPI = {"Never", "OnFailure"}

# trainer v2.3.0 pkg/constants/constants.go
RESERVED_BY_TRAINER = {
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "PET_NODE_RANK",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_plm_rsh_args",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
}
# trainer v2.3.0 manifests/base/runtimes: the jobs of each runtime, all with a container "node"
JOBS_OF_RUNTIMES = {"torch-distributed": {"node"}, "deepspeed-distributed": {"node", "launcher"}}

# trainer v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go
PATCHABLE = {
    "serviceAccountName",
    "volumes",
    "initContainers",
    "containers",
    "imagePullSecrets",
    "securityContext",
    "nodeSelector",
    "affinity",
    "tolerations",
    "schedulingGates",
    "terminationGracePeriodSeconds",
}
PATCHABLE_OF_A_CONTAINER = {"name", "env", "volumeMounts", "securityContext"}


def refusals(manifest: dict[str, Any]) -> list[str]:
    """Returns what the operator of a manifest's kind would not take."""
    checks = {
        "PyTorchJob": pytorchjob,
        "TFJob": tfjob,
        "MPIJob": mpijob,
        "JAXJob": jaxjob,
        "XGBoostJob": xgboostjob,
        "TrainJob": trainjob,
    }
    kind = manifest["kind"]
    assert kind in checks, (
        f"tests/operators.py: there is no function for what its operator says of a {kind}"
    )
    return checks[kind](manifest)


def pytorchjob(manifest: dict[str, Any]) -> list[str]:
    """training-operator v1.9.0 pkg/webhooks/pytorch/pytorchjob_webhook.go."""
    spec = manifest["spec"]
    roles = spec["pytorchReplicaSpecs"]
    wrong = of_training_operator(manifest, roles, "pytorch")
    if not set(roles) <= {"Master", "Worker"}:
        wrong.append(f"unknown roles in {set(roles)}")
    if not re.fullmatch(r"auto|cpu|gpu|[1-9]\d*", spec["nprocPerNode"]):
        wrong.append(f"nprocPerNode {spec['nprocPerNode']!r}")
    for role, replicas in roles.items():
        if role == "Master" and replicas["replicas"] != 1:
            wrong.append("Master.replicas must be 1")
    elastic = spec.get("elasticPolicy")
    if elastic:
        if "Worker" not in roles or "Master" in roles:
            wrong.append("an elastic job has workers only")
        if not elastic["minReplicas"] <= roles["Worker"]["replicas"] <= elastic["maxReplicas"]:
            wrong.append("elastic limits")
        if "nProcPerNode" in elastic:
            wrong.append("elasticPolicy.nProcPerNode must not be used with nprocPerNode")
    return wrong


def tfjob(manifest: dict[str, Any]) -> list[str]:
    """training-operator v1.9.0 pkg/webhooks/tensorflow/tfjob_webhook.go."""
    roles = manifest["spec"]["tfReplicaSpecs"]
    wrong = of_training_operator(manifest, roles, "tensorflow")
    if not set(roles) <= {"Chief", "PS", "Worker", "Evaluator"}:
        wrong.append(f"unknown roles in {set(roles)}")
    if roles.get("Chief", {}).get("replicas", 1) != 1:
        wrong.append("more than one Chief")
    if manifest["spec"].get("successPolicy", "") not in ("", "AllWorkers"):
        wrong.append("successPolicy")
    return wrong


def jaxjob(manifest: dict[str, Any]) -> list[str]:
    """training-operator v1.9.0 pkg/webhooks/jax/jaxjob_webhook.go."""
    roles = manifest["spec"]["jaxReplicaSpecs"]
    wrong = of_training_operator(manifest, roles, "jax")
    return wrong + ([] if set(roles) == {"Worker"} else [f"unknown roles in {set(roles)}"])


def xgboostjob(manifest: dict[str, Any]) -> list[str]:
    """training-operator v1.9.0 pkg/webhooks/xgboost/xgboostjob_webhook.go."""
    roles = manifest["spec"]["xgbReplicaSpecs"]
    wrong = of_training_operator(manifest, roles, "xgboost")
    if not {"Master"} <= set(roles) <= {"Master", "Worker"} or roles["Master"]["replicas"] != 1:
        wrong.append("one Master must be present, and Workers may be")
    return wrong


def of_training_operator(
    manifest: dict[str, Any], roles: dict[str, Any], container: str
) -> list[str]:
    wrong = of_every_job(manifest)
    wrong += of_pods(manifest, {role: f"{role.lower()}-{{}}" for role in roles}, roles, RESTARTS)
    for role, replicas in roles.items():
        names = [one["name"] for one in replicas["template"]["spec"]["containers"]]
        if names != [container]:
            wrong.append(f"containers {names} of {role}")
    return wrong


def mpijob(manifest: dict[str, Any]) -> list[str]:
    """mpi-operator v0.8.0 pkg/apis/kubeflow/validation/validation.go."""
    spec = manifest["spec"]
    roles = spec["mpiReplicaSpecs"]
    names = {"Launcher": "launcher-xxxxx", "Worker": "worker-{}"}
    wrong = of_every_job(manifest) + of_pods(manifest, names, roles, RESTARTS_OF_MPI)
    if set(roles) != {"Launcher", "Worker"}:
        wrong.append(f"roles {set(roles)}")
    if roles["Launcher"]["replicas"] != 1:
        wrong.append("Launcher.replicas must be 1")
    if spec["slotsPerWorker"] < 1 or spec["mpiImplementation"] != "OpenMPI":
        wrong.append("slotsPerWorker, mpiImplementation")
    if spec["launcherCreationPolicy"] not in ("AtStartup", "WaitForWorkersReady"):
        wrong.append("launcherCreationPolicy")
    gang = spec["runPolicy"].get("schedulingPolicy")
    waits = spec["launcherCreationPolicy"] == "WaitForWorkersReady"
    if gang and waits and gang["minAvailable"] > roles["Worker"]["replicas"]:
        wrong.append("the workers would wait for a launcher that waits for them")
    worker = roles["Worker"]["template"]["spec"]["containers"][0]
    if worker.get("args") and not worker.get("command"):
        wrong.append("a worker with args alone gets no sshd")
    for role in roles.values():  # setupSSHOnPod, newLauncherPodTemplate
        mounts = role["template"]["spec"]["containers"][0]["volumeMounts"]
        if {"/root/.ssh", "/etc/mpi"} & {mount["mountPath"] for mount in mounts}:
            wrong.append("a place that the operator mounts itself")
    return wrong


def of_every_job(manifest: dict[str, Any]) -> list[str]:
    wrong = [] if DNS_1035.fullmatch(manifest["metadata"]["name"]) else ["metadata.name"]
    policy = manifest["spec"]["runPolicy"]
    if policy["cleanPodPolicy"] not in CLEAN_UP:
        wrong.append("cleanPodPolicy")
    for field in ("ttlSecondsAfterFinished", "backoffLimit"):
        if not 0 <= policy.get(field, 0) < 2**31:
            wrong.append(field)
    if policy.get("activeDeadlineSeconds", 1) < 1:
        wrong.append("activeDeadlineSeconds")
    return wrong


def of_pods(
    manifest: dict[str, Any], names: dict[str, str], roles: dict[str, Any], restarts: set[str]
) -> list[str]:
    wrong = []
    for role, replicas in roles.items():
        longest = f"{manifest['metadata']['name']}-{names[role].format(replicas['replicas'] - 1)}"
        if not DNS_1035.fullmatch(longest):
            wrong.append(f"pod name {longest}")
        if replicas["replicas"] < 1:
            wrong.append(f"{role}.replicas must be at least 1")
        if replicas["restartPolicy"] not in restarts:
            wrong.append(f"{role}.restartPolicy")
        if "restartPolicy" in replicas["template"]["spec"]:
            wrong.append(f"{role}: the pod's restart policy is overwritten")
        for container in replicas["template"]["spec"]["containers"]:
            if not container["image"].strip():
                wrong.append(f"{role}: no image")
            wrong += of_container(container)
        wrong += of_volumes(replicas["template"]["spec"])
    return wrong


def of_container(container: dict[str, Any]) -> list[str]:
    """The keys of the lists that are maps, as in all four CRDs."""
    wrong = []
    for field, key in (("env", "name"), ("volumeMounts", "mountPath")):
        keys = [item[key] for item in container.get(field, [])]
        wrong += [f"{field} {one} twice" for one in set(keys) if keys.count(one) > 1]
    return wrong


def of_volumes(spec: dict[str, Any]) -> list[str]:
    wrong = []
    for field in ("volumes", "imagePullSecrets"):
        names = [one["name"] for one in spec.get(field, [])]
        wrong += [f"{field} {name} twice" for name in set(names) if names.count(name) > 1]
    volumes = {volume["name"] for volume in spec["volumes"]}
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        wrong += [f"{name} is mounted but is no volume" for name in mounted - volumes]
    return wrong


def trainjob(manifest: dict[str, Any]) -> list[str]:
    """trainer v2.3.0 pkg/apis/trainer/v1alpha1/trainjob_types.go and the plugins' Validate."""
    spec, name = manifest["spec"], manifest["metadata"]["name"]
    if "runtime" in manifest:
        return trainingruntime(manifest["runtime"], manifest)
    trainer = spec["trainer"]
    wrong = []
    if not DNS_1035.fullmatch(f"{name}-launcher-0-0-xxxxx"):
        wrong.append("metadata.name")
    for field in ("command", "args", "env"):
        if len(trainer[field]) > 128:
            wrong.append(f"{field} has more than 128 items")
    if len(trainer["image"]) > 500:
        wrong.append("image")
    if RESERVED_BY_TRAINER & {entry["name"] for entry in trainer["env"]}:
        wrong.append("reserved env")
    if trainer["numNodes"] < 1 or trainer["numProcPerNode"] < 1:
        wrong.append("numNodes, numProcPerNode")
    for patch in spec["runtimePatches"]:
        if not re.fullmatch(r"[a-z0-9.-]+/[\w.-]+", patch["manager"]):
            wrong.append("manager")
        jobs = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        known = JOBS_OF_RUNTIMES.get(spec["runtimeRef"]["name"], {"node", "launcher"})
        if not {job["name"] for job in jobs} <= known:
            wrong.append("a job that the runtime does not have")
        for job in jobs:
            pod = job["template"]["spec"]["template"]["spec"]
            wrong += [f"{field} cannot be patched" for field in set(pod) - PATCHABLE]
            wrong += of_volumes(pod)
            for container in pod["containers"]:
                wrong += [
                    f"{field} of a container cannot be patched"
                    for field in set(container) - PATCHABLE_OF_A_CONTAINER
                ]
                if container["name"] != "node" or container.get("env"):
                    wrong.append("a container that the runtime does not have, or its env")
                wrong += of_container(container)
    return wrong + of_container(trainer)


def trainingruntime(runtime: dict[str, Any], job: dict[str, Any]) -> list[str]:
    """What Trainer v2.3.0, JobSet v0.12.0 and Kubernetes demand of a runtime and its JobSet.

    trainer pkg/runtime/framework/plugins/mpi/mpi.go and pkg/webhooks/trainingruntime_webhook.go;
    jobset pkg/webhooks/jobset_webhook.go; Kubernetes' pkg/apis/batch/validation/validation.go.
    """
    name, spec = job["metadata"]["name"], runtime["spec"]
    jobset = spec["template"]["spec"]
    wrong = []
    if job["spec"]["runtimeRef"] != {"kind": runtime["kind"], "name": runtime["metadata"]["name"]}:
        wrong.append("runtimeRef")
    names = [each["name"] for each in jobset["replicatedJobs"]]
    if len(set(names)) < len(names):
        wrong.append("a replicated job twice")
    if not set(jobset["successPolicy"]["targetReplicatedJobs"]) <= set(names):
        wrong.append("successPolicy of a replicated job that there is not")
    if "mpi" in spec.get("mlPolicy", {}) and names != ["node", "launcher"]:
        wrong.append("keys and hostfile are for a node and a launcher")
    for place, each in enumerate(jobset["replicatedJobs"]):
        before = set(names[:place])
        if not {other["name"] for other in each.get("dependsOn", [])} <= before:
            wrong.append(f"{each['name']} depends on what comes later")
        inner = each["template"]["spec"]
        if not DNS_1035.fullmatch(f"{name}-{each['name']}-{each['replicas'] - 1}-0-xxxxx"):
            wrong.append(f"pod name of {each['name']}")
        pod = inner["template"]["spec"]
        if pod["restartPolicy"] not in ("Never", "OnFailure"):
            wrong.append("restartPolicy of a Job")
        if "podFailurePolicy" in inner and pod["restartPolicy"] != "Never":
            wrong.append("podFailurePolicy goes with restartPolicy Never")
        if not 0 <= inner["backoffLimit"] < 2**31:
            wrong.append("backoffLimit")
        if [container["name"] for container in pod["containers"]] != ["node"]:
            wrong.append("keys and hostfile are for a container named node")
        wrong += of_container(pod["containers"][0]) + of_volumes(pod)
        if "mpi" in spec.get("mlPolicy", {}):
            mounts = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
            if mounts & {"/etc/mpi", spec["mlPolicy"]["mpi"]["sshAuthMountPath"]}:
                wrong.append("a place that Trainer mounts itself")
    return wrong
