"""What the training operator adds to the environment of a PyTorchJob's pods.

Value for value as in pkg/controller.v1/pytorch/{envvar,master,elastic}.go of training operator
v1.9, https://github.com/kubeflow/training-operator/tree/v1.9.0/pkg/controller.v1/pytorch.
"""

from trireme.components.errors import InputError
from trireme.components.training.local.manifest import Job, Pod
from trireme.components.training.local.network import Network, declared_port

PORT_NAME, PORT = "pytorchjob-port", 23456


def injected(job: Job, pod: Pod, network: Network) -> dict[str, str]:
    """Returns the variables of a pod.

    Args:
        job: The PyTorchJob.
        pod: The pod.
        network: Where its pods find each other.

    Raises:
        InputError: The job is elastic and has no workers.
    """
    variables = {"PYTHONUNBUFFERED": "1"}
    elastic = job.spec.get("elasticPolicy")
    processes = _processes(job)
    masters = job.of("Master")
    if masters:
        rank = str(pod.index + (pod.role == "Worker"))
        address = network.at(masters[0].host)
        port = str(network.port(masters[0], declared_port(masters[0], PORT_NAME, PORT)))
        variables |= {
            "MASTER_PORT": port,
            "PET_MASTER_PORT": port,
            "MASTER_ADDR": address,
            "PET_MASTER_ADDR": address,
            "WORLD_SIZE": str(len(job.pods) * _number(job.spec.get("nprocPerNode"))),
            "RANK": rank,
            "PET_NODE_RANK": rank,
        }
    variables["PET_NPROC_PER_NODE"] = processes
    if elastic is None:
        return variables | {"PET_NNODES": str(len(job.pods))}
    return variables | _elastic(job, pod, elastic, network)


def processes_per_pod(job: Job) -> int:
    """Returns how many processes each pod has, 1 where torchrun is to find out."""
    return _number(_processes(job))


def _number(processes: object) -> int:
    return int(str(processes)) if str(processes).isdecimal() else 1


def _processes(job: Job) -> str:
    elastic = job.spec.get("elasticPolicy") or {}
    return str(job.spec.get("nprocPerNode") or elastic.get("nProcPerNode") or "auto")


def _elastic(job: Job, pod: Pod, policy: dict, network: Network) -> dict[str, str]:
    workers = job.of("Worker")
    if not workers:
        raise InputError("elasticPolicy needs a Worker in pytorchReplicaSpecs")
    first = workers[0]
    host = policy.get("rdzvHost") or first.host
    port = policy.get("rdzvPort") or declared_port(first, PORT_NAME, PORT)
    if host == first.host:
        host, port = network.at(host), network.port(first, port)
    least = policy.get("minReplicas") or policy.get("maxReplicas") or len(workers)
    most = policy.get("maxReplicas") or policy.get("minReplicas") or len(workers)
    variables = {
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        "PET_RDZV_BACKEND": policy.get("rdzvBackend") or "c10d",
        "PET_NNODES": f"{least}:{most}",
    }
    optional = {"PET_MAX_RESTARTS": "maxRestarts", "PET_RDZV_ID": "rdzvId"}
    for name, field in optional.items():
        if policy.get(field) is not None:
            variables[name] = str(policy[field])
    settings = [f"{entry['key']}={entry['value']}" for entry in policy.get("rdzvConf") or []]
    if network.shared and variables["PET_RDZV_BACKEND"] == "c10d":
        # Every address is local to every replica here, so torchrun cannot tell by it which of
        # them holds the store; there it is worker-0, because the endpoint is its host name.
        settings.append(f"is_host={pod == first}".lower())
    if settings:
        variables["PET_RDZV_CONF"] = ",".join(settings)
    if policy.get("standalone"):
        variables["PET_STANDALONE"] = ""
    return variables
