"""TensorFlow: TFJob of the training operator v1.9.

Fields: https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/apis/kubeflow.org/v1/tensorflow_types.go
Variables: pkg/controller.v1/tensorflow/{tensorflow,util}.go,
https://github.com/kubeflow/training-operator/tree/v1.9.0/pkg/controller.v1/tensorflow
"""

import json
from typing import Any, ClassVar

from trireme.frameworks import base
from trireme.frameworks.kinds import of_training_operator
from trireme.images import TENSORFLOW


class TensorFlow(base.Framework):
    """TensorFlow: workers alike, or with a chief and parameter servers."""

    name = "tensorflow"
    connects_by = "TF_CONFIG"
    kind = of_training_operator("TFJob", "tfReplicaSpecs", "tensorflow", longest_end="-evaluator-0")
    image = TENSORFLOW
    roles = (
        base.Role("chief", is_leader=True, is_single=True),
        # Saves the variables that it holds: tf.train.CheckpointOptions, experimental_io_device.
        base.Role("ps", "PS", is_optional=True, is_idle=True),
        base.Role("worker", default=1),
        base.Role("evaluator", is_single=True, is_optional=True, saves=False),
    )
    workers_shown = 2
    port = 2222
    injected = "TF_CONFIG"
    meeting: ClassVar = {"config": "TF_CONFIG", "all_reduce": "tensorflow"}
    # Errors only, not the pages it says as it starts.
    settings: ClassVar = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    success_policies = ("Default", "AllWorkers")
    module = "tensorflow"
    trainer = "trainers/tensorflow_classifier.py"
    peer_lost = "UnavailableError|failed to connect to (all addresses|remote host)"

    def default_counts(self, job: "base.TrainingJob") -> dict[str, int]:
        """Returns the counts: a chief may train alone."""
        return super().default_counts(job) | ({"worker": 0} if "chief" in job.replicas else {})

    def check(self, job: "base.TrainingJob") -> None:
        """Refuses parameter servers that serve nobody."""
        if "ps" in job.roles and "worker" not in job.roles:
            raise ValueError("replicas.ps: parameter servers need at least one worker")

    def spec(
        self, job: "base.TrainingJob", policy: dict[str, Any], replicas: dict[str, Any]
    ) -> dict[str, Any]:
        all_workers = job.success_policy == "AllWorkers"
        more = {"successPolicy": "AllWorkers"} if all_workers else {}
        return super().spec(job, policy, replicas) | more

    def rendezvous(self, job: "base.TrainingJob", role: str) -> base.Variables:
        """Returns ``TF_CONFIG``; none where there is one replica, as of a TFJob."""
        if sum(replica.count for replica in job.roles.values()) == 1:
            return []
        cluster = {
            other: [
                f"{self.address(job, other, index)}:{self.port}" for index in range(replica.count)
            ]
            for other, replica in sorted(job.roles.items())
        }
        config = {"cluster": cluster, "task": {"type": role, "index": 0}, "environment": "cloud"}
        # Kubernetes puts the place in, in any image.
        text = _compact(config).replace('"index":0', f'"index":$({base.INDEX})')
        return [base.from_label(base.INDEX, base.INDEX_LABEL), *base.entries({"TF_CONFIG": text})]

    def environment(
        self, job: "base.Job", pod: "base.Pod", network: "base.Network"
    ) -> dict[str, str]:
        """Returns what the operator adds to a pod: nothing where it is the only one."""
        if len(job.pods) == 1:
            return {}
        cluster: dict[str, list[str]] = {}
        # Of every role, the evaluator too; Go writes them in order.
        for peer in sorted(job.pods, key=lambda peer: (peer.role.lower(), peer.index)):
            address = f"{network.at(peer.service)}:{network.port(peer, self.port)}"
            cluster.setdefault(peer.role.lower(), []).append(address)
        task = {"type": pod.role.lower(), "index": pod.index}
        config = {"cluster": cluster, "task": task, "environment": "cloud"}
        return {"TF_CONFIG": _compact(config)}

    def as_in_image(self, threads: str) -> dict[str, str]:
        """Returns the variables; of operations at once there is no limit."""
        # With TF_NUM_INTEROP_THREADS 1 a parameter server waits for itself for ever.
        return super().as_in_image(threads) | {"TF_NUM_INTRAOP_THREADS": threads}

    def has_succeeded(self, job: "base.Job", succeeded: "list[base.Pod]") -> bool:
        """By default a job succeeds with its first worker."""
        all_workers = job.spec.get("successPolicy") == "AllWorkers"
        return not all_workers and any(pod.index == 0 for pod in succeeded)

    def serves(self, job: "base.Job", pod: "base.Pod") -> bool:
        """Parameter servers do, and workers that a chief gives their work."""
        if job.of("PS") and job.of("Chief"):
            return pod.role in ("PS", "Worker")
        return pod.role == "PS"


def _compact(config: dict[str, Any]) -> str:
    return json.dumps(config, separators=(",", ":"))


FRAMEWORKS = (TensorFlow(),)
