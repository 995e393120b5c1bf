"""What it costs to follow a job of many pods on a cluster, from its first pod to its end.

The cluster is the tests' stand-in for an API server, in a process of its own. All pods start, each
prints some lines, and all succeed. Printed are the CPU seconds of the follower in all, with the
lines of all logs, its threads, its memory, what it asked the server for, and the exponents.

    python benchmarks/following.py [PODS]
"""

import os
import resource
import signal
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import yaml
from growth import MIB, cost, exponent

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "api_server"))

from api_server import ApiServer  # noqa: E402
from kubelet import Logs  # noqa: E402

from trireme.frameworks import kind_of  # noqa: E402
from trireme.job.job import TrainingJob  # noqa: E402
from trireme.kubernetes.connection import Cluster  # noqa: E402
from trireme.manifests import render  # noqa: E402
from trireme.observers.base import Observers  # noqa: E402
from trireme.observers.printing import Printing  # noqa: E402
from trireme.runner.cluster.follower import Follower, Limits  # noqa: E402

LINES = 20  # that each pod prints
GOALS = {10: "", 100: "", 1_000: "goal 1 s", 4_096: "goal 4 s"}
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "users": [{"name": "me", "user": {"token": "first"}}],
    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    "current-context": "here",
}


def job_of(count: int) -> dict:
    """Returns a job of a master and workers."""
    places = dict.fromkeys(("code_dir", "checkpoint_dir", "model_dir"), "/tmp")
    job = TrainingJob.create(
        name="many", framework="pytorch", command=["true"], workers=1, **places
    )
    manifest = render(job)
    # More than a description may have.
    manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = count - 1
    return manifest


def play(count: int, descriptor: int) -> None:
    """Plays the cluster, and tells its address."""
    logs = Logs()
    server = ApiServer(logs)
    os.write(descriptor, f"{server.url}\n".encode())
    jobs, pods = "pytorchjobs", "pods"
    while not (keys := [key for key in list(server._objects) if key[0] == jobs]):
        time.sleep(0.05)
    key = keys[0]
    job = server._objects[key]
    names = [("master", 0), *(("worker", index) for index in range(count - 1))]

    def set_status(where: tuple, **status: object) -> None:
        with server._changed:
            server._store("MODIFIED", where, server._objects[where] | {"status": status})

    places = []
    for role, index in names:
        name = f"many-{role}-{index}"
        where = (pods, key[1], name)
        with server._changed:
            server._store("ADDED", where, pod_of(job, key[1], name, role, index))
        logs.write(name, *(f"a line of a program, number {n}" for n in range(LINES)))
        places.append(where)
    for where in places:
        started = {"startedAt": f"{logs.now():%Y-%m-%dT%H:%M:%SZ}"}
        state = {"name": "pytorch", "restartCount": 0, "state": {"running": started}}
        set_status(where, phase="Running", containerStatuses=[state])
    for where in places:
        logs.end(where[2])
        now = f"{logs.now():%Y-%m-%dT%H:%M:%SZ}"
        ended = {"exitCode": 0, "startedAt": now, "finishedAt": now, "reason": "Completed"}
        state = {"name": "pytorch", "restartCount": 0, "state": {"terminated": ended}}
        set_status(where, phase="Succeeded", containerStatuses=[state])
    now = f"{logs.now():%Y-%m-%dT%H:%M:%SZ}"
    set_status(key, conditions=[{"type": "Succeeded", "status": "True", "lastTransitionTime": now}])
    threading.Event().wait()


def pod_of(job: dict, namespace: str, name: str, role: str, index: int) -> dict:
    """Returns a pod of the job, as its operator makes it."""
    owner = {name: job[name] for name in ("apiVersion", "kind")}
    owner |= {"name": job["metadata"]["name"], "uid": job["metadata"]["uid"], "controller": True}
    labels = {
        kind_of(job).job_label: job["metadata"]["name"],
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
    }
    template = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": name,
            "creationTimestamp": job["metadata"]["creationTimestamp"],
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    }


def follow(count: int) -> tuple[int, int, int]:
    """Creates the job and follows it; returns lines, most threads and most connections."""
    cluster, heard, most = Cluster(), [0], [0, 0]
    manifest = job_of(count)
    job = cluster.create(kind_of(manifest), manifest, cluster.namespace)
    lock, over = threading.Lock(), threading.Event()

    def on_line(replica: str, line: str) -> None:
        with lock:
            heard[0] += 1

    def look() -> None:
        while not over.wait(0.2):
            open_files = [link for link in Path("/proc/self/fd").iterdir() if _is_socket(link)]
            # But for this thread.
            counts = threading.active_count() - 1, len(open_files)
            most[:] = [max(pair) for pair in zip(most, counts, strict=True)]

    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    Follower(cluster, job, Limits(), Observers([Printing(on_line)])).follow()
    over.set()
    watch.join()
    return heard[0], *most


def _is_socket(link: Path) -> bool:
    try:
        return str(link.readlink()).startswith("socket:")
    except OSError:
        return False


def measured(count: int, folder: Path) -> float:
    """Measures a job of so many pods and prints a row; returns the CPU seconds."""
    reading, telling = os.pipe()
    if not (server := os.fork()):
        os.close(reading)
        play(count, telling)
    os.close(telling)
    try:
        with os.fdopen(reading) as address:
            url = address.readline().strip()
        file = folder / "kubeconfig"
        cluster = {"clusters": [{"name": "here", "cluster": {"server": url}}]}
        file.write_text(yaml.safe_dump(KUBECONFIG | cluster))
        os.environ["KUBECONFIG"] = str(file)
        spent = cost(partial(follow, count))
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
    lines, threads, sockets = spent.result
    assert lines == count * LINES, f"{lines} lines came of {count * LINES}"
    print(
        f"{count:6,} pods {spent.cpu:7.2f} s CPU {spent.wall:7.1f} s {threads:5} threads "
        f"{sockets:5} connections {spent.memory / MIB:6,.0f} MiB {GOALS.get(count, '')}",
        flush=True,
    )
    return spent.cpu


def main(most: int) -> None:
    """Measures and prints the table."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 1 << 16)), hard))
    with tempfile.TemporaryDirectory() as folder:
        sizes = [size for size in GOALS if size <= most]
        costs = [measured(size, Path(folder)) for size in sizes]
    print(f"exponent of CPU {exponent(sizes, costs):.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else max(GOALS))
