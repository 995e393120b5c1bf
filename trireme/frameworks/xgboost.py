"""XGBoost, and LightGBM: XGBoostJob of the training operator v1.9.

Fields: https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/apis/kubeflow.org/v1/xgboost_types.go
Variables: pkg/controller.v1/xgboost/xgboost.go,
https://github.com/kubeflow/training-operator/tree/v1.9.0/pkg/controller.v1/xgboost
"""

from typing import ClassVar

from trireme.frameworks import base
from trireme.frameworks.kinds import of_training_operator
from trireme.images import XGBOOST

_DMLC = (
    'export DMLC_TRACKER_URI="$MASTER_ADDR" DMLC_TRACKER_PORT="$MASTER_PORT" '
    'DMLC_TASK_ID="$RANK" DMLC_NUM_WORKER="$WORLD_SIZE"; exec "$0" "$@"'
)
"""What Kubeflow Trainer sets in their place, as XGBoost's own arguments are called:
https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/xgboost/xgboost.go."""

_OF_SEVERAL = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
"""What the operator sets for one process, too, which programs take for one of several by it."""


class XgBoost(base.Framework):
    """XGBoost: a master, whose program starts the tracker and trains, and workers."""

    name = "xgboost"
    connects_by = "MASTER_ADDR, MASTER_PORT, WORKER_ADDRS, WORKER_PORT, RANK and WORLD_SIZE"
    kind = of_training_operator(
        "XGBoostJob", "xgbReplicaSpecs", "xgboost", longest_end="-worker-999"
    )
    image = XGBOOST
    has_gpu_image = False
    roles = (
        base.Role("master", default=1, is_leader=True, is_single=True),
        base.Role("worker", saves=False),  # as xgboost.callback.TrainingCheckPoint: rank 0 does
    )
    port = 9999
    injected = (
        r"MASTER_(ADDR|PORT)|WORKER_(ADDRS|PORT)|WORLD_SIZE|RANK|"
        r"DMLC_(TRACKER_(URI|PORT)|TASK_ID|NUM_WORKER)"
    )
    meeting: ClassVar = {"rank": "RANK", "address": "MASTER_ADDR", "port": "MASTER_PORT"}
    ends_together = True
    module = "xgboost"
    trainer = "trainers/xgboost_classifier.py"
    peer_lost = r"all(reduce|gather) failed|poll error condition"

    def command(self, job: "base.TrainingJob", role: str, variables: list[str]) -> base.Command:
        start, arguments = base.python(job, role)
        if job.world_size == 1:
            return base.without(_OF_SEVERAL, start), arguments
        return ["sh", "-c", _DMLC, *start], arguments

    def rendezvous(self, job: "base.TrainingJob", role: str) -> base.Variables:
        port, workers = str(self.port), job.world_size - 1
        values = {
            "MASTER_PORT": port,
            "MASTER_ADDR": self.address(job, "master"),
            "WORLD_SIZE": str(job.world_size),
        }
        if workers:
            addresses = [self.address(job, "worker", index) for index in range(workers)]
            values |= {"WORKER_PORT": port, "WORKER_ADDRS": ",".join(addresses)}
        return [*base.entries(values), base.from_label("RANK", base.RANK_LABEL)]

    def environment(
        self, job: "base.Job", pod: "base.Pod", network: "base.Network"
    ) -> dict[str, str]:
        # Where all pods share an address each has its own port, and WORKER_PORT is the first's.
        (master,), workers = job.of("Master"), job.of("Worker")
        variables = {
            "MASTER_PORT": str(network.port(master, self.port)),
            "MASTER_ADDR": network.at(master.host),
            "WORLD_SIZE": str(len(job.pods)),
            "RANK": str(pod.index + (pod.role == "Worker")),
            "PYTHONUNBUFFERED": "1",
        }
        if workers:
            addresses = [network.at(worker.host) for worker in workers]
            variables |= {
                "WORKER_PORT": str(network.port(workers[0], self.port)),
                "WORKER_ADDRS": ",".join(addresses),
            }
        return variables


FRAMEWORKS = (XgBoost(),)
