"""Convert a job of the training operator or the MPI operator to a TrainJob of Trainer v2.

The job is anybody's. Its pods stay as they are, but for what their operator would have told them:
that comes from the TrainingRuntime then. What a TrainJob has no counterpart for is remarked on.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trireme.errors import InputError
from trireme.frameworks import FRAMEWORKS, of_kind
from trireme.frameworks.base import Framework, Role
from trireme.frameworks.kinds import TRAINJOB
from trireme.job.job import TrainingJob
from trireme.job.rules import MANAGED_BY
from trireme.manifests.runtime import training_runtime
from trireme.manifests.time_limit import set_time_limit

KINDS = tuple(
    dict.fromkeys(
        framework.kind.name
        for framework in FRAMEWORKS.values()
        if framework.kind.group == "kubeflow.org"
    )
)
"""The kinds that can be converted."""

_POLICY = "runPolicy"
_ANY = "left-to-the-image"
"""Stands for a command of an image, of which the manifest says nothing."""

_RESTART_POLICIES = {"PyTorchJob": "OnFailure"}
"""What restarts a replica whose spec says nothing; of the other kinds nothing does:
https://github.com/kubeflow/training-operator/tree/v1.9.3/pkg/apis/kubeflow.org/v1."""

_UNBUFFERED = ("PyTorchJob", "XGBoostJob", "JAXJob")
"""Whose operator sets PYTHONUNBUFFERED."""

_ELASTIC = {"rdzvBackend": "PET_RDZV_BACKEND", "rdzvId": "PET_RDZV_ID"}
"""The variables of an elastic job that are as its policy says, or are not there."""

_ROLES = {"TFJob": {"master": "chief"}}
"""Other names of roles, which mean the same."""


@dataclass(frozen=True)
class Converted:
    """A TrainJob with its runtime, and in sentences what it has otherwise than the job before."""

    manifest: dict[str, Any]
    remarks: list[str]


def convert(job: Mapping[str, Any], gang: str = "") -> Converted:
    """Returns the TrainJob of a job, and what could not be taken along.

    Args:
        job: The manifest of a PyTorchJob, TFJob, MPIJob, XGBoostJob or JAXJob, anybody's.
        gang: The gang scheduler of the cluster, coscheduling or volcano, for a job that asks for
            one: the training operator was started with its name.

    Raises:
        InputError: It is of another kind, or no TrainJob can be like it.
    """
    framework = of_kind(str(job.get("kind")))
    if framework is None or framework.kind.name not in KINDS:
        raise InputError(f"kind {job.get('kind')!r}: must be one of {', '.join(KINDS)}")
    return _Conversion(job, framework, gang).converted()


class _Conversion:
    def __init__(self, job: Mapping[str, Any], framework: Framework, gang: str) -> None:
        self._job, self._framework, self._gang = job, framework, gang
        self._remarks: list[str] = []
        self._name = (job.get("metadata") or {}).get("name")
        self._spec = _mapping(job, "spec", "")
        # In kubeflow.org/v1 an MPIJob had it one level above.
        self._policy = _only(self._spec, "cleanPodPolicy") | _mapping(self._spec, _POLICY, "spec.")
        self._replicas = dict(self._read_replicas())
        self._restart_policies = {
            role: self._restart_policy(role, replicas) for role, replicas in self._replicas.items()
        }

    def converted(self) -> Converted:
        described = self._described()
        runtime = training_runtime(described)
        metadata = _metadata(self._job)
        runtime["metadata"] = {"name": described.name} | _only(metadata, "namespace")
        for replicated_job in runtime["spec"]["template"]["spec"]["replicatedJobs"]:
            role = next(r for r in self._framework.roles if r.in_jobset == replicated_job["name"])
            template = replicated_job["template"]["spec"]
            template["template"] = self._template(described, role, template["template"])
        spec: dict[str, Any] = {"runtimeRef": {"kind": "TrainingRuntime", "name": described.name}}
        if mpi := runtime["spec"].get("mlPolicy", {}).get("mpi"):
            mpi |= self._of_mpi()
            spec["trainer"] = {"numProcPerNode": described.processes_per_worker}
        if described.suspend:
            spec["suspend"] = True
        manifest = {
            "apiVersion": TRAINJOB.api_version,
            "kind": TRAINJOB.name,
            "metadata": {"name": described.name} | metadata,
            "spec": spec,
            "runtime": runtime,
        }
        if described.time_limit:
            set_time_limit(manifest, described.time_limit)
        self._remark_on_the_rest()
        return Converted(manifest, self._remarks)

    # What is read.

    def _read_replicas(self) -> Iterator[tuple[str, dict[str, Any]]]:
        field = self._framework.kind.replicas
        role_names = {role.name: role.name for role in self._framework.roles}
        role_names |= _ROLES.get(self._framework.kind.name, {})
        for title, replicas in _mapping(self._spec, field, "spec.").items():
            if title.lower() not in role_names:
                raise InputError(
                    f"spec.{field}.{title}: a {self._framework.kind.name} has "
                    f"{', '.join(role.title for role in self._framework.roles)}"
                )
            if not (replicas.get("template") or {}).get("spec", {}).get("containers"):
                raise InputError(f"spec.{field}.{title}.template.spec.containers: is missing")
            yield role_names[title.lower()], replicas
        if not _mapping(self._spec, field, "spec."):
            raise InputError(f"spec.{field}: is missing; it says what the replicas are")

    def _described(self) -> TrainingJob:
        """Returns what a TrainJob's policies are made from; the pods are the job's own."""
        if not self._name:
            raise InputError("metadata.name: is missing; the names of pods are made from it")
        fields: dict[str, Any] = {
            "name": self._name,
            "framework": self._framework.name,
            "image": _ANY,
            "command": [_ANY],
            "replicas": {
                role: {
                    "count": replicas.get("replicas", 1),
                    "restart_policy": self._restart_policies[role],
                }
                for role, replicas in self._replicas.items()
            },
            "time_limit": self._policy.get("activeDeadlineSeconds"),
            "time_to_live": self._policy.get("ttlSecondsAfterFinished"),
            "suspend": bool(self._policy.get("suspend")),
            "retries": self._retries(),
            **self._processes(),
            **self._of_success(),
            **self._of_gang(),
        }
        if self._policy.get("cleanPodPolicy") == "All":
            fields["clean_up"] = "All"
        return TrainingJob.create(
            **{field: value for field, value in fields.items() if value is not None}
        )

    def _restart_policy(self, role: str, replicas: Mapping[str, Any]) -> str:
        kind = self._framework.kind.name
        default = _RESTART_POLICIES.get(kind, "Never")
        if kind == "MPIJob" and role == "launcher":
            default = "OnFailure"  # v2beta1/constants.go of the MPI operator v0.8
        policy = replicas.get("restartPolicy") or default
        if policy == "Always":
            self._remark(
                f"restartPolicy Always of the {role}: is OnFailure here; a replica that ends with "
                "status 0 is not started again"
            )
            return "OnFailure"
        return str(policy)

    def _retries(self) -> int | None:
        limit = self._policy.get("backoffLimit", self._framework.backoff_limit)
        if limit is None or set(self._restart_policies.values()) == {"Never"}:
            return None
        # The operators count the restarts of all replicas and fail a job *at* this number; a
        # TrainJob counts those of each replica.
        several = sum(replicas.get("replicas", 1) for replicas in self._replicas.values()) > 1
        if several and self._framework.backoff_limit is None:
            self._remark(
                f"runPolicy.backoffLimit {limit}: was a limit for all replicas together, and is "
                "one for each here"
            )
        return max(int(limit) - 1, 0)

    def _processes(self) -> dict[str, Any]:
        elastic = self._spec.get("elasticPolicy") or {}
        per_node = elastic.get("nProcPerNode") or self._spec.get("nprocPerNode")
        per_node = self._spec.get("slotsPerWorker", per_node)
        fields: dict[str, Any] = {}
        if str(per_node or "").isdecimal():
            fields["processes_per_worker"] = int(str(per_node))
        if elastic:
            workers = self._replicas.get("worker", {}).get("replicas", 1)
            fields["elastic"] = {
                "min": elastic.get("minReplicas", workers),
                "max": elastic.get("maxReplicas", workers),
            } | ({"max_restarts": elastic["maxRestarts"]} if "maxRestarts" in elastic else {})
        return fields

    def _of_success(self) -> dict[str, Any]:
        workers = self._replicas.get("worker", {}).get("replicas", 1)
        if self._framework.kind.name != "TFJob" or "chief" in self._replicas or workers == 1:
            return {}
        if self._spec.get("successPolicy") != "AllWorkers":
            self._remark(
                "spec.successPolicy: the job succeeded with its first worker; a TrainJob succeeds "
                "when all workers have"
            )
        return {"success_policy": "AllWorkers"}

    def _of_gang(self) -> dict[str, Any]:
        policy = self._policy.get("schedulingPolicy")
        if policy is None:
            return {}
        if not self._gang:
            self._remark(
                "runPolicy.schedulingPolicy: is left out; a TrainJob has to name its gang "
                "scheduler, --gang coscheduling or --gang volcano"
            )
            return {}
        for field in sorted(policy.keys() - {"queue"}):
            self._remark(
                f"runPolicy.schedulingPolicy.{field}: is left out; a TrainJob's gang is all of its "
                "pods, with what these request"
            )
        return {"scheduling": {"gang": self._gang} | _only(policy, "queue")}

    # What is made.

    def _template(
        self, described: TrainingJob, role: Role, rendered: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Returns the pods of a role: the job's own, told what Trainer tells them otherwise."""
        template: dict[str, Any] = copy.deepcopy(self._replicas[role.name]["template"])
        spec = template["spec"]
        spec["restartPolicy"] = rendered["spec"]["restartPolicy"]
        if "schedulerName" in rendered["spec"]:
            spec.setdefault("schedulerName", rendered["spec"]["schedulerName"])
        container = self._main(spec["containers"])
        container["name"] = TRAINJOB.container
        declared = list(container.get("env") or [])
        added = [*self._told(described, role)]
        names = {entry["name"] for entry in added}
        env = [entry for entry in declared if entry["name"] not in names] + added
        if env:
            container["env"] = env
        if self._framework.name == "mpi" or described.elastic:
            self._start(described, role, container)
        return template

    def _main(self, containers: list[dict[str, Any]]) -> dict[str, Any]:
        named = [
            container
            for container in containers
            if container["name"] == self._framework.kind.container
        ]
        return next(iter(named), containers[0])

    def _told(self, described: TrainingJob, role: Role) -> Iterator[dict[str, Any]]:
        """Yields the variables that the operator would have given a container."""
        elastic = self._spec.get("elasticPolicy") or {}
        changes = {name: elastic.get(field) for field, name in _ELASTIC.items()}
        if conf := elastic.get("rdzvConf"):
            pairs = ",".join(f"{pair['key']}={pair['value']}" for pair in conf)
            yield {"name": "PET_RDZV_CONF", "value": pairs}
        if self._framework.kind.name == "PyTorchJob":
            per_node = elastic.get("nProcPerNode") or self._spec.get("nprocPerNode")
            changes["PET_NPROC_PER_NODE"] = per_node or "auto"
        if self._framework.kind.name in _UNBUFFERED:
            yield {"name": "PYTHONUNBUFFERED", "value": "1"}
        first = next(role.name for role in self._framework.roles if role.name in self._replicas)
        for entry in self._framework.rendezvous(described, role.name):
            name = entry["name"]
            if name in changes and changes[name] is None:
                continue  # such as an id that nobody has given
            entry = entry | ({"value": str(changes[name])} if name in changes else {})
            if "value" in entry:
                port = self._port("worker" if name == "WORKER_PORT" else first)
                entry["value"] = _with_port(entry["value"], self._framework.port, port)
            yield entry

    def _port(self, role: str) -> int:
        """Returns the port of a role's replicas that the operator tells the others."""
        name = f"{self._framework.kind.name.lower()}-port"
        containers = self._replicas[role]["template"]["spec"]["containers"]
        ports = self._main(containers).get("ports") or ()
        named = [int(port["containerPort"]) for port in ports if port.get("name") == name]
        return named[0] if named else self._framework.port

    def _start(self, described: TrainingJob, role: Role, container: dict[str, Any]) -> None:
        """Has a container do what its operator had it do besides, before its own command."""
        command = container.get("command")
        if not command and role.has_program:
            self._remark(
                f"the {role.name} has no command: give it the one of its image, which cannot be "
                "seen here and has to be prepared"
            )
            return
        replica = described.roles[role.name].model_copy(update={"command": command, "args": []})
        roles = described.model_copy(update={"replicas": {role.name: replica}})
        start, _ = self._framework.trainjob_command(roles, role.name, [])
        container["command"] = start

    def _of_mpi(self) -> dict[str, Any]:
        """Returns what Trainer's policy for MPI is to say otherwise than that of our own jobs."""
        policy = _only(self._spec, "mpiImplementation")
        if self._spec.get("runLauncherAsWorker"):
            policy["runLauncherAsNode"] = True
        if not str(self._job.get("apiVersion")).endswith("/v2beta1"):
            self._remark(
                "apiVersion kubeflow.org/v1: its launcher started the ranks by kubectl exec, a "
                "TrainJob's does by SSH, so the image needs sshd and ssh"
            )
        return policy

    # What is left.

    def _remark(self, sentence: str) -> None:
        if sentence not in self._remarks:
            self._remarks.append(sentence)

    def _remark_on_the_rest(self) -> None:
        known = {_POLICY, self._framework.kind.replicas, "elasticPolicy", "nprocPerNode"}
        known |= {"slotsPerWorker", "successPolicy", "mpiImplementation", "runLauncherAsWorker"}
        known |= {"sshAuthMountPath", "launcherCreationPolicy", "cleanPodPolicy"}
        policies = {"activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend", "backoffLimit"}
        policies |= {"cleanPodPolicy", "schedulingPolicy"}
        elastic = {
            "minReplicas",
            "maxReplicas",
            "maxRestarts",
            "nProcPerNode",
            "rdzvConf",
            *_ELASTIC,
        }
        places = (
            ("spec", self._spec, known),
            ("spec.runPolicy", self._policy, policies),
            ("spec.elasticPolicy", self._spec.get("elasticPolicy") or {}, elastic),
        )
        for path, fields, handled in places:
            for field in sorted(fields.keys() - handled):
                self._remark(f"{path}.{field}: has no counterpart and is left out")
        if self._policy.get("cleanPodPolicy") == "None":
            self._remark(
                "runPolicy.cleanPodPolicy None: pods that still run when the job has ended are "
                "removed; those that have ended stay"
            )
        for role, replicas in self._replicas.items():
            text = str(replicas["template"]["spec"])
            for other in self._replicas:
                old = f"{self._name}-{other}-"
                if old in text:
                    self._remark(
                        f"the {role} names {old}0 or the like itself, a Service that a TrainJob "
                        f"has not: its pods are {self._name}-{other}-0-0.{self._name} and so on"
                    )


def _metadata(job: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a person has written of a job's metadata, but for its name."""
    metadata = dict(job.get("metadata") or {})
    labels = {
        name: value
        for name, value in (metadata.get("labels") or {}).items()
        if (name, value) not in MANAGED_BY.items()
    }
    annotations = {
        name: value
        for name, value in (metadata.get("annotations") or {}).items()
        if not name.startswith(("kubectl.kubernetes.io/", "trireme.dev/"))
    }
    written = _only(metadata, "namespace")
    written |= {"labels": labels} if labels else {}
    return written | ({"annotations": annotations} if annotations else {})


def _only(mapping: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: mapping[name] for name in names if mapping.get(name) is not None}


def _mapping(parent: Mapping[str, Any], field: str, path: str) -> dict[str, Any]:
    value = parent.get(field) or {}
    if not isinstance(value, Mapping):
        raise InputError(f"{path}{field}: must be a mapping, not {value!r}")
    return dict(value)


def _with_port(value: str, old: int, new: int) -> str:
    """Returns a variable in which the port of the framework is the job's own."""
    return str(new) if value == str(old) else value.replace(f":{old}", f":{new}")
