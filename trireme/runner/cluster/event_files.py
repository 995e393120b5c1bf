"""The event files of replicas that run: brought here as far as they are not here yet."""

import json
import subprocess
from pathlib import Path, PurePosixPath

from trireme.errors import InputError, TriremeError
from trireme.files import event_files as events
from trireme.kubernetes.connection import Cluster
from trireme.kubernetes.kubectl import exec_in

ANSWER_LIMIT = 120.0  # seconds for what a replica has written


def pull(cluster: Cluster, pod: str, container: str, folder: Path, since: float) -> None:
    """Appends to the files in a folder what the program in a container has written since then."""
    # A replica's image has Python, but perhaps no TensorBoard that a port could lead to.
    program = Path(events.__file__).read_text()
    command = exec_in(cluster, pod, container, ["python3", "-c", program], "-i")
    sizes = {str(path): file.stat().st_size for path, file in events.found([folder]).items()}
    request = json.dumps({"since": since, "sizes": sizes}).encode()
    try:
        done = subprocess.run(command, input=request, capture_output=True, timeout=ANSWER_LIMIT)
    except FileNotFoundError:
        raise InputError("kubectl is not installed, which reads files of replicas") from None
    except subprocess.TimeoutExpired:
        raise TriremeError(f"{pod} did not send its event files in {ANSWER_LIMIT:.0f} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise TriremeError(f"the event files of {pod} cannot be read: {lines[-1]}")
    rest = done.stdout
    while rest:
        line, _, rest = rest.partition(b"\n")
        said_of = json.loads(line)
        _append(folder, said_of["file"], said_of["start"], rest[: said_of["size"]])
        rest = rest[said_of["size"] :]


def _append(folder: Path, path: str, start: int, more: bytes) -> None:
    if ".." in PurePosixPath(path).parts or path.startswith("/"):
        return  # whoever writes that means no good
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as stream:
        if stream.tell() == start:
            stream.write(more)
