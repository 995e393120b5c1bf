"""The environment of a replica's process, as its container would have it."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trireme.components.errors import InputError
from trireme.components.training.frameworks import FRAMEWORKS
from trireme.components.training.local import usage
from trireme.components.training.local.manifest import Job, Pod
from trireme.components.variables import expand

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


def declared(job: Job, pod: Pod, address: str) -> dict[str, str]:
    """Returns the variables that the manifest declares for a pod."""
    fields = {
        "metadata.name": pod.host,
        "metadata.namespace": job.namespace,
        "status.podIP": address,
    }
    variables: dict[str, str] = {}
    for entry in pod.container.get("env") or []:
        source = entry.get("valueFrom")
        if source:
            value = _value_from(pod, entry["name"], source, fields)
        else:
            value = expand(str(entry.get("value") or ""), variables)
        if value is not None:
            variables[entry["name"]] = value
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


def _value_from(
    pod: Pod, name: str, source: Mapping[str, Any], fields: Mapping[str, str]
) -> str | None:
    """Returns the value of a variable with ``valueFrom``; ``None`` where it may be left out."""
    if "secretKeyRef" in source:
        secret = source["secretKeyRef"]
        if name not in os.environ and not secret.get("optional"):
            raise InputError(
                f"env {name} of {pod.role} comes from the Secret {secret.get('name')!r}, which "
                f"only a cluster has; set the environment variable {name} on this machine"
            )
        return os.environ.get(name)
    if "resourceFieldRef" in source:
        return None  # limits are not kept here, and each process has its share of the cores
    path = str((source.get("fieldRef") or {}).get("fieldPath") or "")
    if path in fields:
        return fields[path]
    what = f"fieldRef {path!r}" if path else next(iter(source))
    raise InputError(
        f"env {name} of {pod.role}: {what} has no value on this machine; supported are "
        f"secretKeyRef, and fieldRef {', '.join(fields)}"
    )
