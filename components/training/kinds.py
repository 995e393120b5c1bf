"""The Kubernetes kinds that a training job can be, as their operators define them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of training job.

    Attributes:
        name: As in ``kind:`` of a manifest.
        group: Its API group.
        version: Its API version.
        plural: Its name in API paths.
        replicas: The field of ``spec`` that maps roles to replica specs; empty for a TrainJob,
            whose runtime defines them.
        container: The name of the container that the operator injects the rendezvous into.
        longest_end: The longest of what its operator puts after a job's name to name services and
            pods, of which Kubernetes takes 63 characters as a DNS label and a label's value.
        job_label: The label of a job's pods that holds the job's name.
    """

    name: str
    group: str
    version: str
    plural: str
    replicas: str
    container: str
    longest_end: str
    job_label: str = "training.kubeflow.org/job-name"

    @property
    def api_version(self) -> str:
        """As in ``apiVersion:`` of a manifest."""
        return f"{self.group}/{self.version}"


# https://github.com/kubeflow/training-operator/tree/v1.9.0/pkg/apis/kubeflow.org/v1
PYTORCHJOB = Kind(
    *("PyTorchJob", "kubeflow.org", "v1", "pytorchjobs", "pytorchReplicaSpecs", "pytorch"),
    longest_end="-worker-999",
)
TFJOB = Kind(
    *("TFJob", "kubeflow.org", "v1", "tfjobs", "tfReplicaSpecs", "tensorflow"),
    longest_end="-evaluator-0",
)
# https://github.com/kubeflow/mpi-operator/tree/v0.8.0/pkg/apis/kubeflow/v2beta1
MPIJOB = Kind(
    *("MPIJob", "kubeflow.org", "v2beta1", "mpijobs", "mpiReplicaSpecs", "mpi"),
    longest_end="-launcher-xxxxx",  # the launcher is a batch/v1 Job
)
# https://github.com/kubeflow/trainer/tree/v2.3.0/pkg/apis/trainer/v1alpha1
TRAINJOB = Kind(
    *("TrainJob", "trainer.kubeflow.org", "v1alpha1", "trainjobs", "", "node"),
    longest_end="-launcher-0-0-xxxxx",  # of a JobSet: two indices and a generated end
    job_label="jobset.sigs.k8s.io/jobset-name",
)

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
