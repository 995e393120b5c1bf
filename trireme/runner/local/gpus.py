"""GPUs of this machine, shared out: on a cluster a pod has GPUs of its own."""

import os
from typing import Any

from trireme.frameworks import IDLE
from trireme.job.rules import GPU
from trireme.runner.local import usage
from trireme.runner.local.manifest import Job, Pod
from trireme.text.say import say

VISIBLE = "CUDA_VISIBLE_DEVICES"


def shared_out(job: Job) -> dict[str, dict[str, str]]:
    """Returns the variable with which each replica sees its share of the GPUs, by its name.

    There are as many for each; a replica that asks for fewer sees fewer. Where there is less than
    one for each of its processes, all of them train on processors. A job of one replica that asks
    for none sees what there is.
    """
    computing = [pod for pod in job.pods if pod.role.lower() not in IDLE]
    gpus_asked = {pod.name: _asked(pod) for pod in computing}
    if warning := lacking_gpus(sum(gpus_asked.values())):
        say(warning)
    if not usage.has_gpu() or (len(job.pods) == 1 and not any(gpus_asked.values())):
        return {}
    visible, needed = _visible(), job.framework.processes(job) // len(computing)
    share = len(visible) // len(computing)
    if visible and share < needed and not warning:
        say(
            f"warning: {needed * len(computing)} processes would each need a GPU, and this machine "
            f"has {len(visible)}; they train on its processors, fewer would train on GPUs"
        )
    gpus_of_pods = {pod.name: "" for pod in job.pods}
    for number, pod in enumerate(computing):
        if share >= needed:
            first, count = number * share, min(gpus_asked[pod.name] or share, share)
            gpus_of_pods[pod.name] = ",".join(visible[first : first + count])
    return {name: {VISIBLE: ids} for name, ids in gpus_of_pods.items()}


def lacking_gpus(count: int) -> str:
    """Warns of a job that asks for more GPUs than this machine has; empty where it does not."""
    present = len(_visible()) if count and usage.has_gpu() else 0
    if count <= present:
        return ""
    return (
        f"warning: the job asks for {count} GPU{'s' * (count != 1)}, and this machine has "
        f"{present or 'none'}; it trains with what there is"
    )


def _asked(pod: Pod) -> int:
    resources: dict[str, Any] = pod.container.get("resources") or {}
    return int((resources.get("limits") or {}).get(GPU) or 0)


def _visible() -> list[str]:
    """Returns the GPUs that this process sees, as CUDA calls them."""
    if VISIBLE in os.environ:
        numbers = os.environ[VISIBLE].split(",")
        return [number.strip() for number in numbers if number.strip() not in ("", "-1")]
    return usage.gpu_numbers()
