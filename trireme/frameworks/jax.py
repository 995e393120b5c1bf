"""JAX: JAXJob of the training operator v1.9.

Fields: https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/apis/kubeflow.org/v1/jax_types.go
Variables: pkg/controller.v1/jax/envvar.go,
https://github.com/kubeflow/training-operator/tree/v1.9.0/pkg/controller.v1/jax
"""

from typing import ClassVar

from trireme.frameworks import base
from trireme.frameworks.kinds import of_training_operator
from trireme.images import JAX


class Jax(base.Framework):
    """JAX: workers alike, the first of which runs the coordinator of jax.distributed."""

    name = "jax"
    connects_by = (
        "jax.distributed, by COORDINATOR_ADDRESS, COORDINATOR_PORT, NUM_PROCESSES, PROCESS_ID"
    )
    kind = of_training_operator("JAXJob", "jaxReplicaSpecs", "jax", longest_end="-worker-999")
    image = JAX
    has_gpu_image = False
    roles = (base.Role("worker", default=1),)
    port = 6666
    injected = "COORDINATOR_(ADDRESS|PORT)|NUM_PROCESSES|PROCESS_ID"
    inherited = "JAX_(COORDINATOR_ADDRESS|NUM_PROCESSES|PROCESS_ID)"
    meeting: ClassVar = {
        "rank": "PROCESS_ID",
        "address": "COORDINATOR_ADDRESS",
        "port": "COORDINATOR_PORT",
    }
    ends_together = True
    module = "jax"
    trainer = "trainers/jax_classifier.py"
    peer_lost = "JAX distributed service detected fatal errors|coordination service"

    def variables(self, job: "base.TrainingJob", role: str) -> base.Variables:
        """Returns the devices of a replica's process: all of them, or the CPU.

        ``jax.distributed.initialize`` else takes a pod for one of a Kubernetes Job and asks the
        API server, for which it has no token.
        """
        replica = job.roles[role]
        others = set(replica.devices or {}) - {job.network.rdma}
        count = replica.gpu or (0 if others else 1)
        ids = ",".join(str(device) for device in range(count))
        return base.entries({"JAX_LOCAL_DEVICE_IDS": ids} if ids else {})

    def rendezvous(self, job: "base.TrainingJob", role: str) -> base.Variables:
        values = {
            "COORDINATOR_PORT": str(self.port),
            "COORDINATOR_ADDRESS": self.address(job, "worker"),
            "NUM_PROCESSES": str(job.world_size),
        }
        return [*base.entries(values), base.from_label("PROCESS_ID", base.RANK_LABEL)]

    def environment(
        self, job: "base.Job", pod: "base.Pod", network: "base.Network"
    ) -> dict[str, str]:
        return {
            "PYTHONUNBUFFERED": "1",
            "COORDINATOR_PORT": str(network.port(job.pods[0], self.port)),
            "COORDINATOR_ADDRESS": network.at(job.pods[0].host),
            "NUM_PROCESSES": str(len(job.pods)),
            "PROCESS_ID": str(pod.index),
        }


FRAMEWORKS = (Jax(),)
