"""The environment of a replica's process, as its container would have it."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from trireme.errors import InputError
from trireme.frameworks import FRAMEWORKS
from trireme.runner.local import usage
from trireme.runner.local.manifest import Job, Pod
from trireme.text.variables import expand

# Set by whoever started this process; a container would not see it.
_STALE = re.compile(
    "|".join(
        pattern
        for framework in FRAMEWORKS.values()
        for pattern in (framework.injected, framework.inherited)
        if pattern
    )
)


def image(job: Job) -> dict[str, str]:
    """Returns this machine's variables in place of the images', with a number of threads each."""
    variables = {name: value for name, value in os.environ.items() if not _STALE.fullmatch(name)}
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables.get('PATH', '')}"
    variables.setdefault("PYTHONUNBUFFERED", "1")
    threads = max(1, usage.cores() // job.framework.processes(job))
    return job.framework.as_in_image(str(threads)) | variables


def declared(pod: Pod) -> dict[str, str]:
    """Returns the variables that the manifest declares for a pod."""
    variables: dict[str, str] = {}
    for entry in pod.container.get("env") or []:
        name, source = entry["name"], entry.get("valueFrom")
        if source is None:
            variables[name] = expand(entry["value"], variables)
        elif secret := source.get("secretKeyRef"):
            if name in os.environ:
                variables[name] = os.environ[name]
            elif not secret.get("optional"):
                raise InputError(
                    f"env {name} of {pod.role} comes from the Secret {secret['name']!r}, which "
                    f"only a cluster has; set the environment variable {name} on this machine"
                )
        # Else it is a limit: these are not kept here, and each process has its share of the cores.
    return variables


def command(pod: Pod, variables: Mapping[str, str]) -> list[str]:
    """Returns a pod's command and arguments."""
    parts = [*(pod.container.get("command") or []), *(pod.container.get("args") or [])]
    return [expand(str(part), variables) for part in parts]


def inside(image: Mapping[str, str], visible: Mapping[str, str]) -> dict[str, str]:
    """Returns the whole environment of a replica's process."""
    variables = {**image, **visible}
    if "PYTHONPATH" in visible and "PYTHONPATH" in image:
        variables["PYTHONPATH"] += os.pathsep + image["PYTHONPATH"]
    return variables
