"""Putting the preflight before the program of each replica, in the manifest of a job."""

import base64
import json
import re
import secrets
import zlib
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from trireme.manifests.roles import roles
from trireme.observers.preflight import replica

if TYPE_CHECKING:
    from trireme.job.job import TrainingJob

PATIENCE = 900.0
"""Seconds that a replica on a cluster tries to reach the others: nodes are made in as long."""

PATIENCE_HERE = 30.0

_MODULES = (
    *("said", "place", "meeting", "links", "host", "all_reduce", "collective"),
    *("slow", "verdict", "mpi", "main"),
)
"""In the order in which they import each other."""

# A file of the program's own that is called like a module of Python's would be taken for it.
_BOOT = """\
import os, sys
sys.path[:] = [place for place in sys.path if place not in ("", os.getcwd())]
import base64, json, types, zlib
package = sys.modules[PACKAGE] = types.ModuleType(PACKAGE)
for name, source in json.loads(zlib.decompress(base64.b64decode(PACKED))).items():
    module = sys.modules[PACKAGE + "." + name] = types.ModuleType(PACKAGE + "." + name)
    exec(compile(source, name + ".py", "exec"), module.__dict__)
    module.SOURCE = source
    setattr(package, name, module)
package.main.run(json.loads(sys.argv[2]), sys.argv[1])
"""

# As the first process of a container a shell ends at SIGTERM only if it says so.
_SCRIPT = (
    "trap 'exit 143' TERM; if command -v python3 >/dev/null 2>&1; then "
    'python3 -c "$0" "$0" "$1" & wait $!; [ $? != 78 ] || exit 78; '
    'else echo \'trireme-preflight: {"skipped":"the image has no python3"}\'; fi; '
    'trap - TERM; shift; exec "$@"'
)

_IN_IMAGES_WITH_A_SHELL = re.compile(
    r"(ba|da)?sh|env|python[\d.]*|torchrun|accelerate|deepspeed|horovodrun|mpirun|mpiexec"
)


def why_not(job: "TrainingJob") -> str:
    """Says why the replicas of a job are not tested; empty where they are."""
    counts = _counts(job)
    if sum(counts.values()) < 2:
        return "the job is one replica"
    if job.elastic:
        return "the replicas of an elastic job come and go"
    if not job.plugin.meeting:
        return f"how the replicas of a {job.framework} job meet is not known"
    if "hostfile" in job.plugin.meeting and job.runtime:
        return f"the launcher of the runtime {job.runtime} is not known"
    for role in job.roles:
        command = job.roles[role].command or ["sh"]
        if not _IN_IMAGES_WITH_A_SHELL.fullmatch(PurePosixPath(command[0]).name):
            return f"the image may have no shell: the command of the {role} is {command[0]}"
    return ""


def wrap(
    manifest: dict[str, Any], job: "TrainingJob", patience: float = PATIENCE, *, alone: bool = False
) -> None:
    """Has each replica of a job's manifest make the preflight before it runs its program.

    Args:
        patience: Seconds that each tries to reach the others.
        alone: Whether nothing else is to run.
    """
    meeting, counts = dict(job.plugin.meeting), _counts(job)
    if not job.runtime and not all(job.plugin.role(role).trains for role in counts):
        meeting.pop("all_reduce", None)  # such as parameter servers take no part in one
    config = {
        "meeting": meeting,
        "counts": counts,
        "patience": patience,
        "alone": alone,
        "library": job.plugin.module or meeting.get("all_reduce", ""),
        "token": secrets.token_hex(8),
    }
    for role, container in _containers(manifest, job):
        limits = json.dumps((container.get("resources") or {}).get("limits") or {}, sort_keys=True)
        saves = bool(job.runtime) or job.plugin.role(role).saves
        settings = config | {"role": role, "asked": limits, "saves": saves}
        # Kubernetes replaces $(NAME) in it.
        words = json.dumps(settings, separators=(",", ":")).replace("$", "$$")
        command = ["true"] if alone else container.get("command") or []
        container["command"] = ["sh", "-c", _SCRIPT, code(), words, *command]
        if alone:
            container.pop("args", None)


@cache
def code() -> str:
    """Returns the program of the replicas, as ``python -c`` takes it."""
    folder = Path(replica.__file__).parent
    sources = {name: (folder / f"{name}.py").read_text() for name in _MODULES}
    packed = base64.b64encode(zlib.compress(json.dumps(sources).encode(), 9)).decode()
    return f"PACKAGE, PACKED = {replica.__name__!r}, {packed!r}\n{_BOOT}"


def _counts(job: "TrainingJob") -> dict[str, int]:
    """Returns how many replicas of each role meet, in the order of their ranks."""
    if job.runtime:
        return {"node": job.nodes}
    counts = {role: replica.count for role, replica in job.roles.items()}
    if "hostfile" in job.plugin.meeting:
        return {role: counts[role] for role in counts if not job.plugin.role(role).is_leader}
    return counts


def _containers(manifest: dict[str, Any], job: "TrainingJob") -> list[tuple[str, dict[str, Any]]]:
    """Returns the containers that meet, each with its role; of an MPI job the launcher's."""
    if job.runtime:
        return [("node", manifest["spec"]["trainer"])]
    containers = [(role.name.lower(), role.pod["containers"][0]) for role in roles(manifest)]
    if "hostfile" not in job.plugin.meeting:
        return containers
    (met,) = _counts(job)
    return [(met, container) for role, container in containers if job.plugin.role(role).is_leader]
