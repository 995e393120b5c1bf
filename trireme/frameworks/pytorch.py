"""PyTorch, and any program that can use its variables: PyTorchJob of the training operator v1.9.

Fields: https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/apis/kubeflow.org/v1/pytorch_types.go
Variables: pkg/controller.v1/pytorch/{envvar,master,elastic}.go,
https://github.com/kubeflow/training-operator/tree/v1.9.0/pkg/controller.v1/pytorch
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from trireme.errors import InputError
from trireme.frameworks import base
from trireme.frameworks.kinds import of_training_operator
from trireme.images import PYTORCH

_LOCAL = base.entries({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"})
"""What torchrun would set and the operator does not."""

_NODE_RANK = (
    'r="${RANK:-0}"; export NODE_RANK="${NODE_RANK:-$r}" GROUP_RANK="${GROUP_RANK:-$r}"; '
    'exec "$0" "$@"'
)
"""The same of several pods, each of which knows its own: Lightning and Accelerate look for it."""

_OF_SEVERAL = (
    *("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
)
"""What the operator sets for one process, too: programs and launchers take it for one of several,
ask for GPUs, or find the port taken that they are to listen on."""

_TOLD_TO_END = (
    'trap \'told="${p:-early}"; [ -z "$p" ] || kill -TERM "$p"\' TERM; "$0" "$@" & p=$!; '
    '[ "$told" != early ] || { sleep 1; kill -TERM "$p"; }; '
    'while s=0; wait "$p" || s=$?; kill -0 "$p" 2>/dev/null; do :; done; '
    '[ -z "$told" ] || [ "$s" = 0 ] || exit 143; exit "$s"'
)
"""Without it torchrun ends with 1 where SIGTERM has ended it, as when its node is drained, and the
restart policy ExitCode takes that for a fault of the program's."""

_THREADS = [
    {"name": "OMP_NUM_THREADS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    *base.entries(base.WAITING),
]
"""Without it a process has a thread for each core of its node, whatever it may use of them: threads
that spin for each other then use up the limit."""

_ELASTIC = base.entries({"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})
"""Without it the processes use the store of the rendezvous in worker-0, and the others wait for
ever for one that is gone when worker-0 is started again
(https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py)."""

_HOLD_STORE = (
    f'[ "${base.INDEX}" != 0 ] || '
    'export PET_RDZV_CONF="${PET_RDZV_CONF:+$PET_RDZV_CONF,}is_host=true"; exec "$0" "$@"'
)
"""Without it torchrun tells by its address whether it is the one that all others connect to, and
the first pod's name may not be known yet when it asks for it."""


_DOLLAR = re.compile(r"(\$\([A-Za-z_][\w.-]*\))|(\$\([^)]*\))|\$\$|\$")


class PyTorch(base.Framework):
    """PyTorch: torch.distributed, started by torchrun where a replica is several processes."""

    name = "pytorch"
    connects_by = "torch.distributed"
    kind = of_training_operator(
        "PyTorchJob", "pytorchReplicaSpecs", "pytorch", longest_end="-worker-999"
    )
    image = PYTORCH
    roles = (base.Role("master", default=1, is_leader=True, is_single=True), base.Role("worker"))
    port = 23456
    injected = (
        r"MASTER_(ADDR|PORT)|(LOCAL_)?WORLD_SIZE|(LOCAL_)?RANK|PET_(NNODES|NODE_RANK|"
        r"NPROC_PER_NODE|MASTER_ADDR|MASTER_PORT|MAX_RESTARTS|RDZV_(ENDPOINT|BACKEND|ID))"
    )
    inherited = r"((LOCAL|GROUP|NODE|ROLE)_)?(RANK|WORLD_SIZE)|ROLE_NAME|(PET|TORCHELASTIC)_\w+"
    meeting: ClassVar = {
        "rank": "PET_NODE_RANK RANK",
        "address": "PET_MASTER_ADDR MASTER_ADDR",
        "port": "PET_MASTER_PORT MASTER_PORT",
        "all_reduce": "torch",
    }
    has_processes = True
    is_elastic = True
    ends_together = True
    module = "torch"
    trainer = "trainers/pytorch_classifier.py"
    runtime_jobs: tuple[str, ...] = ("node",)
    peer_lost = "DistBackendError|DistNetworkError|DistStoreError|RendezvousConnectionError"
    # Not always at a line's beginning: what it has ended may have been in the middle of one.
    report = r"E\d{4} [\d:.]+ \d+ torch/distributed/elastic/"

    def as_in_image(self, threads: str) -> dict[str, str]:
        # Transformers before 5 loads TensorFlow where it is there, as in no image of PyTorch's. Its
        # LLVM and that of triton end a process that has loaded both.
        return super().as_in_image(threads) | {"USE_TF": "0"}

    def command(self, job: "base.TrainingJob", role: str, variables: list[str]) -> base.Command:
        # The operator sets all that one process needs, and torchrun would import PyTorch once more
        # only to wait.
        if not _is_alone(job) or job.world_size == 1:
            return self.node_command(job, variables, role)
        start, arguments = base.python(job, role)
        if not job.roles[role].command:
            start = ["sh", "-c", _NODE_RANK, *start]
        return start, arguments

    def node_command(
        self, job: "base.TrainingJob", variables: list[str], role: str = "master"
    ) -> base.Command:
        if _is_alone(job) and job.world_size == 1:
            start, arguments = base.python(job, role)
            return base.without(_OF_SEVERAL, start), arguments
        start, arguments = base.program(job, role, ["torchrun"], _for_torchrun)
        is_ours = not job.roles[role].command
        return ["sh", "-c", _TOLD_TO_END, *start] if is_ours else start, arguments

    def variables(self, job: "base.TrainingJob", role: str) -> base.Variables:
        """Returns what torchrun or the operator leaves out."""
        if not _is_alone(job):
            return _ELASTIC if job.elastic else []
        return _THREADS if job.world_size == 1 else _LOCAL + _THREADS

    def default_counts(self, job: "base.TrainingJob") -> dict[str, int]:
        """Returns the counts; an elastic job has no master."""
        return {"worker": job.elastic.max} if job.elastic else super().default_counts(job)

    def spec(
        self, job: "base.TrainingJob", policy: dict[str, Any], replicas: dict[str, Any]
    ) -> dict[str, Any]:
        processes = {"nprocPerNode": str(job.processes_per_worker)}
        spec: dict[str, Any] = processes | super().spec(job, policy, replicas)
        if job.elastic:
            spec["elasticPolicy"] = {
                "minReplicas": job.elastic.min,
                "maxReplicas": job.elastic.max,
                "maxRestarts": job.elastic.max_restarts,
                "rdzvBackend": "c10d",
                "rdzvId": job.name,
            }
        return spec

    def least_replicas(self, spec: Mapping[str, Any]) -> int | None:
        elastic = spec.get("elasticPolicy") or {}
        return int(elastic["minReplicas"]) if "minReplicas" in elastic else None

    def scaled(self, spec: Mapping[str, Any], count: int) -> dict[str, Any]:
        if not (elastic := spec.get("elasticPolicy")):
            return {}
        least, most = elastic["minReplicas"], elastic["maxReplicas"]
        if not least <= count <= most:
            raise InputError(f"{count} workers: the job takes {least} to {most}, as elastic says")
        return {self.kind.replicas: {"Worker": {"replicas": count}}}

    def rendezvous(self, job: "base.TrainingJob", role: str) -> base.Variables:
        address, port = self.address(job, job.first_role), str(self.port)
        values = {"PET_NPROC_PER_NODE": str(job.processes_per_worker)}
        if job.elastic:
            values |= {
                "PET_NNODES": f"{job.elastic.min}:{job.elastic.max}",
                "PET_MAX_RESTARTS": str(job.elastic.max_restarts),
                "PET_RDZV_BACKEND": "c10d",
                "PET_RDZV_ENDPOINT": f"{address}:{port}",
                "PET_RDZV_ID": job.name,
            }
            return [*base.entries(values), base.from_label(base.INDEX, base.INDEX_LABEL)]
        values |= {
            "PET_NNODES": str(job.world_size // job.processes_per_worker),
            "MASTER_ADDR": address,
            "MASTER_PORT": port,
            "PET_MASTER_ADDR": address,
            "PET_MASTER_PORT": port,
            "WORLD_SIZE": str(job.world_size),
        }
        ranks = [base.from_label(name, base.RANK_LABEL) for name in ("RANK", "PET_NODE_RANK")]
        return [*base.entries(values), *ranks]

    def trainjob_command(
        self, job: "base.TrainingJob", role: str, variables: list[str]
    ) -> base.Command:
        """Returns what a replica runs; of an elastic job the first holds the store."""
        start, arguments = self.command(job, role, variables)
        return ["sh", "-c", _HOLD_STORE, *start] if job.elastic else start, arguments

    def environment(
        self, job: "base.Job", pod: "base.Pod", network: "base.Network"
    ) -> dict[str, str]:
        first = job.pods[0]
        address, port = network.at(first.host), str(network.port(first, self.port))
        variables = {
            "PYTHONUNBUFFERED": "1",
            "PET_NPROC_PER_NODE": job.spec["nprocPerNode"],
        }
        if not (elastic := job.spec.get("elasticPolicy")):
            rank = str(pod.index + (pod.role == "Worker"))
            return variables | {
                "PET_NNODES": str(len(job.pods)),
                "MASTER_PORT": port,
                "PET_MASTER_PORT": port,
                "MASTER_ADDR": address,
                "PET_MASTER_ADDR": address,
                "WORLD_SIZE": str(self.processes(job)),
                "RANK": rank,
                "PET_NODE_RANK": rank,
            }
        variables |= {
            "PET_NNODES": f"{elastic['minReplicas']}:{elastic['maxReplicas']}",
            "PET_MAX_RESTARTS": str(elastic["maxRestarts"]),
            "PET_RDZV_BACKEND": elastic["rdzvBackend"],
            "PET_RDZV_ENDPOINT": f"{address}:{port}",
            "PET_RDZV_ID": elastic["rdzvId"],
        }
        if network.shared:
            # Every address is local to every replica here, so torchrun cannot tell by it which of
            # them holds the store; there it is worker-0, because the endpoint is its host name.
            holds = f"is_host={pod == first}".lower()
            configured = pod.variable("PET_RDZV_CONF")
            variables["PET_RDZV_CONF"] = ",".join(filter(None, [configured, holds]))
        return variables

    def processes(self, job: "base.Job") -> int:
        return len(job.pods) * int(job.spec["nprocPerNode"])

    def has_succeeded(self, job: "base.Job", succeeded: "list[base.Pod]") -> bool:
        """An elastic job succeeds with any worker."""
        return "elasticPolicy" in job.spec and bool(succeeded)


class Custom(PyTorch):
    """Programs that need no torch: a PyTorchJob, for what MASTER_ADDR and RANK tell them."""

    name = "custom"
    connects_by = (
        "MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE, for anything else that can use them"
    )
    meeting: ClassVar = {name: of for name, of in PyTorch.meeting.items() if name != "all_reduce"}
    has_processes = is_elastic = False
    module = trainer = ""
    runtime_jobs = ()


def _for_torchrun(text: str) -> str:
    """Doubles each ``$`` that Kubernetes leaves: torchrun passes words through a Template."""

    def doubled(match: re.Match[str]) -> str:
        reference, of_no_variable = match.groups()
        return reference or (of_no_variable or "$").replace("$", "$$$$")

    return _DOLLAR.sub(doubled, text)


def _is_alone(job: "base.TrainingJob") -> bool:
    """Tells whether a replica is one process, which needs no torchrun."""
    return job.processes_per_worker == 1 and not job.elastic


FRAMEWORKS = (PyTorch(), Custom())
