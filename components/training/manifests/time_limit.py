"""How long a job may run, in the manifest of whichever kind."""

from typing import Any

from trireme.components.training.kinds import KINDS, PYTORCHJOB, TFJOB, TRAINJOB


def set_time_limit(manifest: dict[str, Any], seconds: int) -> None:
    """Makes a job end after some time.

    The training operator 1.9 looks at its jobs' limit only when something else happens to a job:
    its own reminder goes to a queue that nobody reads
    (https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/controller.v1/common/job.go).
    So the pods have the limit too, which Kubernetes keeps by itself.

    Args:
        manifest: The job, of any kind, which is changed.
        seconds: How long it may run.
    """
    kind, spec = KINDS[manifest["kind"]], manifest["spec"]
    policy = spec if kind is TRAINJOB else spec["runPolicy"]
    policy["activeDeadlineSeconds"] = seconds
    if kind in (PYTORCHJOB, TFJOB):
        for replicas in spec[kind.replicas].values():
            replicas["template"]["spec"]["activeDeadlineSeconds"] = seconds
