"""The processes of a job's pods: command, environment, directory, host."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from trireme.runner.local import environment, gpus
from trireme.runner.local.manifest import Job, Pod
from trireme.runner.local.network import Network
from trireme.runner.local.supervised import supervised

GRACE = 30.0  # seconds between asking a replica to end and killing it, as a pod has by default

Start = Callable[[], subprocess.Popen[bytes]]


def starts(job: Job, network: Network, logs: Path, temporary: Path) -> list[tuple[Pod, Start]]:
    """Returns each pod of a job, with what starts its process as often as it is called."""
    pod_starts: list[tuple[Pod, Start]] = []
    for pod, command, variables in processes(job, network, logs, temporary):
        own = _temporary_directory(pod, variables, temporary)
        pod_starts.append((pod, partial(_start, network, pod, command, own)))
    return pod_starts


def processes(
    job: Job, network: Network, logs: Path, temporary: Path
) -> Iterator[tuple[Pod, list[str], dict[str, str]]]:
    """Yields each pod with its command and environment."""
    image, gpus_of_pods = environment.image(job), gpus.shared_out(job)
    images = {pod.name: image | gpus_of_pods.get(pod.name, {}) for pod in job.pods}
    start_of = job.framework.starts(job, network, logs, temporary, images)
    for pod in job.pods:
        start = start_of(pod)
        declared = environment.declared(pod)
        visible = declared | job.framework.environment(job, pod, network)
        if start.is_command_only:
            yield pod, start.command, start.image
        else:
            command = environment.command(pod, visible) or start.command
            yield pod, command, environment.inside(start.image, visible)


def _temporary_directory(pod: Pod, variables: dict[str, str], temporary: Path) -> dict[str, str]:
    """Returns variables that lead to a place for temporary files, unless the manifest has one."""
    if variables.get("TMPDIR") != os.environ.get("TMPDIR"):
        return variables
    folder = temporary / pod.name
    folder.mkdir()
    return variables | {"TMPDIR": str(folder)}


def _start(
    network: Network, pod: Pod, command: list[str], variables: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    directory = str(Path(pod.container.get("workingDir") or ".").resolve())
    inside = partial(network.inside, pod, directory=directory)
    return supervised(command, GRACE, variables, directory, inside=inside)
