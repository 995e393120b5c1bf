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
    asked = {pod.name: _asked(pod) for pod in computing}
    if lacking := lacking_gpus(sum(asked.values())):
        say(lacking)
    if not usage.has_gpu() or (len(job.pods) == 1 and not any(asked.values())):
        return {}
    found, each = _visible(), job.framework.processes(job) // len(computing)
    share = len(found) // len(computing)
    if found and share < each and not lacking:
        say(
            f"warning: {each * len(computing)} processes would each need a GPU, and this machine "
            f"has {len(found)}; they train on its processors, fewer would train on GPUs"
        )
    seen = {pod.name: "" for pod in job.pods}
    for number, pod in enumerate(computing):
        if share >= each:
            first, count = number * share, min(asked[pod.name] or share, share)
            seen[pod.name] = ",".join(found[first : first + count])
    return {name: {VISIBLE: ids} for name, ids in seen.items()}


def lacking_gpus(asked: int) -> str:
    """Warns of a job that asks for more GPUs than this machine has; empty where it does not."""
    there = len(_visible()) if asked and usage.has_gpu() else 0
    if asked <= there:
        return ""
    return (
        f"warning: the job asks for {asked} GPU{'s' * (asked != 1)}, and this machine has "
        f"{there or 'none'}; it trains with what there is"
    )


def _asked(pod: Pod) -> int:
    resources: dict[str, Any] = pod.container.get("resources") or {}
    return int((resources.get("limits") or {}).get(GPU) or 0)


def _visible() -> list[str]:
    """Returns the GPUs that this process sees, as CUDA calls them."""
    if VISIBLE in os.environ:
        given = os.environ[VISIBLE].split(",")
        return [each.strip() for each in given if each.strip() not in ("", "-1")]
    return usage.gpu_numbers()
