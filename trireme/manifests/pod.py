"""The pods of a training job: what their spec has in common, whatever the kind of the job."""

import re
from typing import Any

from trireme.code import tree
from trireme.credentials import secrets
from trireme.errors import InputError
from trireme.files import event_files as events
from trireme.frameworks.base import Command, Variables, literal
from trireme.frameworks.kinds import ON_HANG, QUEUE, RETRIES
from trireme.images import BASE, USER
from trireme.job.fields import Replica
from trireme.job.job import TrainingJob
from trireme.job.rules import GPU, MANAGED_BY
from trireme.kubernetes.spot import SPOT
from trireme.manifests import storage
from trireme.text.variables import inlined, names_in
from trireme.tracking.environment import CREDENTIALS, SECRET

DEFAULTS = {
    # What the reference classifiers need on the digits: 480 MiB with PyTorch, 840 with TensorFlow.
    "requests": {"cpu": "250m", "memory": "1Gi"},
    "limits": {"cpu": "2", "memory": "4Gi"},
}
"""What a replica gets whose job does not say how much: it starts on a small node, too."""

_FETCHING = {
    "requests": {"cpu": "100m", "memory": "256Mi"},
    "limits": {"cpu": "1", "memory": "1Gi"},
}
_FETCH = "/fetch"  # where a container that fetches something has the volume it goes to
_REMOTE = re.compile(r"(https?|ssh|git)://|[\w.-]+@")

LIGHTNING = "PL_TRAINER_DEFAULT_ROOT_DIR"
"""Where Lightning's Trainer keeps checkpoints and logs unless its program says so."""


def metadata(job: TrainingJob) -> dict[str, Any]:
    """Returns the metadata of the job's object."""
    labels = MANAGED_BY | job.labels
    if job.scheduling.queue and not job.scheduling.gang:
        # https://kueue.sigs.k8s.io/docs/tasks/run/kubeflow/
        labels[QUEUE] = job.scheduling.queue
    fields: dict[str, Any] = {"name": job.name, "labels": labels}
    annotations = dict(job.annotations)
    if job.survived_incidents:
        annotations[RETRIES] = str(job.survived_incidents)
    if job.on_hang != "report":
        annotations[ON_HANG] = job.on_hang
    if annotations:
        fields["annotations"] = annotations
    return fields


def run_policy(job: TrainingJob) -> dict[str, Any]:
    """Returns the ``runPolicy`` of the kinds that have one."""
    policy: dict[str, Any] = {"cleanPodPolicy": job.clean_up}
    limit = job.restart_limit
    if limit is not None:
        # Both operators fail a job *at* this number of restarts of a container, and at the first
        # where it is zero: the training operator (PastBackoffLimit in pkg/core/job.go), and for
        # the MPI operator the Job of the launcher (pastBackoffLimitOnFailure in Kubernetes'
        # pkg/controller/job/job_controller.go).
        counted = limit and "ExitCode" not in job.restart_policies
        if job.survived_incidents:
            # They count the restarts of all replicas, each of which may be started again after
            # each incident. Whoever follows the job counts these.
            most = (
                job.elastic.max
                if job.elastic
                else sum(replica.count for replica in job.roles.values())
            )
            limit = job.survived_incidents * most
        policy["backoffLimit"] = limit + 1 if counted else limit
    if job.time_to_live is not None:
        policy["ttlSecondsAfterFinished"] = job.time_to_live
    if job.suspend:
        policy["suspend"] = True
    if job.scheduling.gang:
        policy["schedulingPolicy"] = _gang(job)
    return policy


def template(
    job: TrainingJob,
    role: str,
    container: str,
    command: Command,
    rendezvous: Variables | None = None,
) -> dict[str, Any]:
    """Returns the template of a role's pods; ``rendezvous`` is what no operator adds."""
    return {
        "metadata": pod_metadata(job, has_rank_0=role == job.first_role),
        "spec": _pod(job, role, container, command, rendezvous or []),
    }


def pod_metadata(job: TrainingJob, *, has_rank_0: bool) -> dict[str, Any]:
    """Returns labels and annotations of the pods, one of which may have the process of rank 0."""
    # A sidecar that never ends would keep the job from ending.
    annotations = {"sidecar.istio.io/inject": "false"}
    if job.metrics_port and has_rank_0:
        annotations["trireme/metrics-port"] = str(job.metrics_port)
    if topology := job.scheduling.topology:
        # https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
        level = "required" if topology.required else "preferred"
        of_kueue = f"kueue.x-k8s.io/podset-{level}-topology"
        annotations[of_kueue] = topology.required or topology.preferred or ""
    annotations |= job.annotations
    return {"labels": MANAGED_BY | job.labels, "annotations": annotations}


def environment(job: TrainingJob) -> list[dict[str, Any]]:
    """Returns the environment of every replica, without what the operator injects."""
    values = {
        "CODE_DIR": job.code_dir,
        "DATA_DIR": job.data_dir,
        "CHECKPOINT_DIR": job.checkpoint_dir,
        "MODEL_DIR": job.model_dir,
        LIGHTNING: job.checkpoint_dir,
        events.LOGGING_DIR: f"{job.checkpoint_dir}/{events.OF_CHECKPOINTS}",
        # Python itself puts only the program's own folder on its path.
        "PYTHONPATH": job.code_dir,
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",  # where a signal such as SIGSEGV has come from
        **job.plugin.settings,
    }
    if job.tracking:
        values["MLFLOW_TRACKING_URI"] = job.tracking.uri
        if job.tracking.experiment:
            values["MLFLOW_EXPERIMENT_NAME"] = job.tracking.experiment
    if job.metrics_port:
        values["METRICS_PORT"] = str(job.metrics_port)
    if job.network.interface:
        values["NCCL_SOCKET_IFNAME"] = values["GLOO_SOCKET_IFNAME"] = job.network.interface
    values |= job.network.nccl
    values = {name: literal(value) for name, value in values.items()} | job.env
    if job.packages:
        values["PYTHONPATH"] += f":{literal(job.packages)}"
    entries = {name: {"name": name, "value": value} for name, value in values.items()}
    # A name that is there twice would be refused.
    for name, key in job.secret_env.items():
        # A step has handed it on that cannot tell whether it had it from there.
        is_credential = name in CREDENTIALS and key == f"{SECRET}/{name}"
        entries[name] = _from_secret(name, key, optional=is_credential)
    if job.tracking:
        for name in CREDENTIALS:
            entries.setdefault(name, _from_secret(name, f"{SECRET}/{name}", optional=True))
    return list(entries.values())


def with_packages(job: TrainingJob, start: list[str]) -> list[str]:
    """Returns a command that finds the commands of the job's packages first."""
    if not (job.packages and start):
        return start
    # Only a shell can tell what PATH the image has.
    path = 'export PATH="$0/bin:$PATH" && exec "$@"'
    return ["sh", "-c", path, literal(job.packages), *start]


def with_late_variables(job: TrainingJob, role: str, start: list[str]) -> list[str]:
    """Returns a command with the job's variables that refer to what each replica has of its own."""
    # Kubernetes expands a reference in a variable only to what is declared before that, and the
    # operator declares its own last; in a command it expands all.
    more = {entry["name"] for entry in job.plugin.variables(job, role)} - job.env.keys()
    late: dict[str, str] = {}
    for name, value in job.env.items():
        referred = names_in(value)
        if not referred.isdisjoint(late.keys() | more) or any(
            re.fullmatch(job.plugin.injected, name) for name in referred
        ):
            late[name] = inlined(value, late)
    if not (late and start):
        return start
    return ["env", *(f"{name}={value}" for name, value in late.items()), *start]


def resources(replica: Replica) -> dict[str, Any]:
    """Returns requests and limits of a container: the same for what the job says."""
    amounts: dict[str, Any] = {"cpu": replica.cpu, "memory": replica.memory, GPU: replica.gpu}
    amounts |= replica.devices or {}
    specified = {name: amount for name, amount in amounts.items() if amount}
    return {kind: defaults | specified for kind, defaults in DEFAULTS.items()}


def container_security(job: TrainingJob, replica: Replica) -> dict[str, Any]:
    """Returns the security context of a container."""
    context = _confined(job)
    if job.network.rdma in (replica.devices or {}):
        # To register memory with the network card.
        context["capabilities"] = context.get("capabilities", {}) | {"add": ["IPC_LOCK"]}
    return context


def pod_security(job: TrainingJob) -> dict[str, Any]:
    """Returns the security context of a pod."""
    context: dict[str, Any] = {"seccompProfile": {"type": "RuntimeDefault"}}
    if job.user:
        context |= {"runAsNonRoot": True, "runAsUser": job.user}
    fills_a_claim = job.dataset is not None and bool(job.dataset.cache)  # in an image of ours
    if group := job.user or (USER if fills_a_claim else None):
        context["fsGroup"] = group
        context["fsGroupChangePolicy"] = "OnRootMismatch"  # not file by file at each pod's start
    return context


def image_pull_secrets(job: TrainingJob) -> list[dict[str, str]]:
    """Returns the references to the secrets that images are pulled with, each once."""
    return [{"name": name} for name in dict.fromkeys(job.image_pull_secrets)]


def placement(job: TrainingJob) -> dict[str, Any]:
    """Returns the fields of a pod's spec that say which nodes it may run on."""
    selector: dict[str, str] = dict(job.scheduling.node_selector)
    tolerations = [part.model_dump(exclude_none=True) for part in job.scheduling.tolerations]
    if job.scheduling.spot:
        labels, taint = SPOT[job.scheduling.spot]
        selector |= labels
        tolerations += [{"operator": "Equal"} | taint] if taint else []
    fields = {
        "nodeSelector": selector,
        "tolerations": tolerations,
        "affinity": job.scheduling.affinity,
    }
    return {name: value for name, value in fields.items() if value}


def _pod(
    job: TrainingJob, role: str, container: str, command: Command, rendezvous: Variables
) -> dict[str, Any]:
    replica = job.roles[role]
    sources, mounts = storage.volumes(job, replica)
    env = environment(job)
    names = {entry["name"] for entry in env}
    start = command[0]
    if job.plugin.role(role).has_program:
        start = with_late_variables(job, role, with_packages(job, start))
    more = [
        variable for variable in job.plugin.variables(job, role) if variable["name"] not in names
    ]
    main = {
        "name": container,
        "image": replica.image,
        "workingDir": job.code_dir,
        "command": start,
        "args": command[1],
        "env": [*env, *rendezvous, *more],
        "resources": resources(replica),
        "volumeMounts": mounts,
        "securityContext": container_security(job, replica),
        "lifecycle": job.plugin.lifecycle(role),
    }
    spec: dict[str, Any] = {
        "automountServiceAccountToken": bool(job.service_account),
        "serviceAccountName": job.service_account,
        "imagePullSecrets": image_pull_secrets(job),
        "schedulerName": job.scheduling.scheduler,
        "priorityClassName": job.scheduling.priority,
        "securityContext": pod_security(job),
        **placement(job),
        "initContainers": _init_containers(job),
        "containers": [{name: value for name, value in main.items() if value}],
        "volumes": sources,
    }
    return {name: value for name, value in spec.items() if value not in (None, [])}


def _init_containers(job: TrainingJob) -> list[dict[str, Any]]:
    """Returns the containers that fetch code and data before the program starts."""
    containers = []
    if job.code:
        if job.code.url and not _REMOTE.match(job.code.url):
            raise InputError(
                f"code.url {job.code.url!r}: on a cluster it must be an https, ssh or git URL"
            )
        options = [f"--secret={job.code.secret}"] if job.code.secret else []
        options += [f"--directory={job.code.directory}"] if job.code.directory else []
        options += [f"--data-at={job.data_at}", f"--data={job.data_dir}"] if job.data_at else []
        if job.code.submodules != tree.ALL:
            options.append(f"--submodules={job.code.submodules}")
        # What is fetched appears whole, by a rename: it cannot be the mount itself.
        command = ["trireme.code", *options, job.code.url, job.code.revision]
        command.append(f"{_FETCH}/{storage.FETCHED}")
        containers.append(_fetch(job, "code", command, job.code.secret))
    if job.dataset and job.dataset.way == "stage":
        described = job.dataset.model_dump_json(exclude_defaults=True)
        command = [
            "trireme.data",
            described,
            f"{_FETCH}/{storage.staged_path(job.dataset)}",
        ]
        if job.dataset.cache:
            command.append(_FETCH)
        containers.append(_fetch(job, "dataset", command, job.dataset.secret))
    return containers


def _confined(job: TrainingJob) -> dict[str, Any]:
    """Returns the security context that every container of a job has."""
    # A user other than root has no use for root's capabilities, and where Pod Security is
    # ``restricted`` it must not have them.
    context: dict[str, Any] = {"allowPrivilegeEscalation": False}
    if job.user:
        context["capabilities"] = {"drop": ["ALL"]}
    return context


def _fetch(job: TrainingJob, volume: str, command: list[str], secret: str) -> dict[str, Any]:
    """Returns the container that runs one of Trireme's modules to fill a volume."""
    mounts: list[dict[str, Any]] = [{"name": volume, "mountPath": _FETCH}]
    if secret:
        # Only here: the program has no use for it.
        path = str(secrets.MOUNTS / volume)
        mounts.append({"name": f"{volume}-secret", "mountPath": path, "readOnly": True})
    return {
        "name": f"fetch-{volume}",
        "image": job.images.get(BASE, BASE),
        "command": ["python3", "-m", command[0]],
        "args": [literal(argument) for argument in command[1:]],
        "resources": {kind: dict(amounts) for kind, amounts in _FETCHING.items()},
        "volumeMounts": mounts,
        "securityContext": _confined(job),
    }


def _gang(job: TrainingJob) -> dict[str, Any]:
    # What is only made when others are there must not be waited for by them.
    together = [
        replica.count for role, replica in job.roles.items() if not job.plugin.role(role).waits_for
    ]
    policy: dict[str, Any] = {"minAvailable": sum(together)}
    if job.elastic:
        policy["minAvailable"] = job.elastic.min
    if job.scheduling.queue:
        policy["queue"] = job.scheduling.queue
    if job.scheduling.priority:
        policy["priorityClass"] = job.scheduling.priority
    return policy


def _from_secret(name: str, key: str, *, optional: bool = False) -> dict[str, Any]:
    secret, _, entry = key.partition("/")
    source = {"name": secret, "key": entry} | ({"optional": True} if optional else {})
    return {"name": name, "valueFrom": {"secretKeyRef": source}}
