"""The Kubernetes kinds that a training job can be, as their operators define them."""

from dataclasses import dataclass
from typing import Any

from trireme.components.kubernetes.resources import Resource


@dataclass(frozen=True)
class Kind(Resource):
    """A kind of training job.

    Attributes:
        name: As in ``kind:`` of a manifest.
        replicas: The field of ``spec`` that maps roles to replica specs; empty for a TrainJob,
            whose runtime defines them.
        container: The name of the container that the operator injects the rendezvous into.
        longest_end: The longest of what its operator puts after a job's name to name services and
            pods, of which Kubernetes takes 63 characters as a DNS label and a label's value.
        job_label: The label of a job's pods that holds the job's name.
    """

    name: str
    replicas: str
    container: str
    longest_end: str
    job_label: str = "training.kubeflow.org/job-name"

    @property
    def api_version(self) -> str:
        """As in ``apiVersion:`` of a manifest."""
        return f"{self.group}/{self.version}"

    @property
    def title(self) -> str:
        """What a person calls it."""
        return f"{self.name} ({self.api_version})"


_OPERATOR = "Kubeflow Trainer v2.2 or newer, or the Kubeflow training operator v1.9"

# https://github.com/kubeflow/training-operator/tree/v1.9.0/pkg/apis/kubeflow.org/v1
PYTORCHJOB = Kind(
    *("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", "pytorchReplicaSpecs", "pytorch"),
    longest_end="-worker-999",
    provider=_OPERATOR,
)
TFJOB = Kind(
    *("kubeflow.org", "v1", "tfjobs", "TFJob", "tfReplicaSpecs", "tensorflow"),
    longest_end="-evaluator-0",
    provider=_OPERATOR,
)
# https://github.com/kubeflow/mpi-operator/tree/v0.8.0/pkg/apis/kubeflow/v2beta1
MPIJOB = Kind(
    *("kubeflow.org", "v2beta1", "mpijobs", "MPIJob", "mpiReplicaSpecs", "mpi"),
    longest_end="-launcher-xxxxx",  # the launcher is a batch/v1 Job
    provider="Kubeflow Trainer v2.2 or newer, or the Kubeflow MPI operator v0.8 with its own CRD "
    "mpijobs.kubeflow.org, in place of the training operator's, which has another version "
    "(docs/cluster.md)",
)
# https://github.com/kubeflow/trainer/tree/v2.3.0/pkg/apis/trainer/v1alpha1
TRAINJOB = Kind(
    *("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", "", "node"),
    longest_end="-launcher-0-0-xxxxx",  # of a JobSet: two indices and a generated end
    job_label="jobset.sigs.k8s.io/jobset-name",
    provider="Kubeflow Trainer v2.2 or newer",
)

TRAINING_RUNTIMES = Resource(TRAINJOB.group, TRAINJOB.version, "trainingruntimes")

OF_FRAMEWORK = {
    "pytorch": PYTORCHJOB,
    "custom": PYTORCHJOB,
    "tensorflow": TFJOB,
    "mpi": MPIJOB,
}
"""What a job becomes, by its framework, where the cluster has that kind; else a TrainJob."""

ROLE = "trireme.dev/role"
"""The label of a TrainJob's pods with the role that we gave them."""

REPLICAS = "trireme.dev/replicas"
"""The annotation of a TrainJob that tells how many replicas of each role its runtime makes."""

LEAST = "trireme.dev/least-replicas"
"""The annotation of an elastic TrainJob that tells how many replicas it needs."""

KINDS = {kind.name: kind for kind in (PYTORCHJOB, TFJOB, MPIJOB, TRAINJOB)}


def kind_of(job: dict[str, Any]) -> Kind:
    """Returns the kind of a job, from its manifest."""
    return KINDS[job["kind"]]


def pods_of(job: dict[str, Any]) -> str:
    """Returns the label selector of a job's pods."""
    return f"{kind_of(job).job_label}={job['metadata']['name']}"
