"""Kinds of a training job on a cluster: of its framework's operator, or a TrainJob."""

from dataclasses import dataclass
from typing import Any

from trireme.kubernetes.resources import Resource


@dataclass(frozen=True)
class Kind(Resource):
    """A kind of training job.

    Attributes:
        replicas: The field of ``spec`` that maps roles to replica specs; empty for a TrainJob,
            whose runtime defines them.
        container: The name of the container that the operator injects the rendezvous into.
        longest_end: The longest of what its operator puts after a job's name to name services and
            pods, of which Kubernetes takes 63 characters as a DNS label and a label's value.
        job_label: The label of a job's pods that holds the job's name.
        keeps_time: Whether the operator ends a job by itself that runs into its time limit.
    """

    name: str
    replicas: str
    container: str
    longest_end: str
    job_label: str = "training.kubeflow.org/job-name"
    keeps_time: bool = True

    @property
    def title(self) -> str:
        """What a person calls it."""
        return f"{self.name} ({self.api_version})"


def of_training_operator(name: str, replicas: str, container: str, longest_end: str) -> Kind:
    """Returns a kind of the training operator v1.9."""
    # It looks at its jobs' time limit only when something else happens to a job: its own reminder
    # goes to a queue that nobody reads
    # (https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/controller.v1/common/job.go).
    return Kind(
        *("kubeflow.org", "v1", f"{name.lower()}s", name, replicas, container, longest_end),
        keeps_time=False,
        provider="Kubeflow Trainer v2.2 or newer, or the Kubeflow training operator v1.9",
    )


# https://github.com/kubeflow/trainer/tree/v2.3.0/pkg/apis/trainer/v1alpha1
TRAINJOB = Kind(
    *("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", "", "node"),
    longest_end="-launcher-0-0-xxxxx",  # of a JobSet: two indices and a generated end
    job_label="jobset.sigs.k8s.io/jobset-name",
    provider="Kubeflow Trainer v2.2 or newer",
)

TRAINING_RUNTIMES = Resource(TRAINJOB.group, TRAINJOB.version, "trainingruntimes")

QUEUE = "kueue.x-k8s.io/queue-name"
"""The label of a job that asks Kueue for a place in a queue."""

ROLE = "trireme.dev/role"
"""The label of a TrainJob's pods with the role that we gave them."""

FRAMEWORK = "trireme.dev/framework"
"""The annotation of a job that tells its framework, where its kind is first of all another's."""

REPLICAS = "trireme.dev/replicas"
"""The annotation of a TrainJob that tells how many replicas of each role its runtime makes."""

LEAST_REPLICAS = "trireme.dev/least-replicas"
"""The annotation of an elastic TrainJob that tells how many replicas it needs."""

GANG = "trireme.dev/gang"
"""The annotation of a TrainJob that tells which gang scheduler its runtime names."""

ON_HANG = "trireme.dev/on-hang"
"""The annotation of a job that tells what to do when it hangs, where that is not only a report."""

RETRIES = "trireme.dev/retries"
"""The annotation of a job that tells how many incidents it survives."""


def objects(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns what a cluster is given for a manifest: the job, and its runtime before it."""
    job = {name: part for name, part in manifest.items() if name != "runtime"}
    return [manifest["runtime"], job] if "runtime" in manifest else [job]
