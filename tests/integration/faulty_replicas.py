"""Hosts of a job's replicas, one of which has a fault: real packets, limits and file systems."""

import contextlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.observers.preflight import wrapping
from trireme.observers.preflight.report import Report
from trireme.runner.local.isolation import Isolated
from trireme.runner.local.manifest import read
from trireme.runner.local.pod import starts

# Passes frames on between two interfaces, late, as netem does, which not every kernel has.
LATE = """
import heapq, select, socket, sys, time
ends = []
for name in sys.argv[1:3]:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    end.setsockopt(263, 15, 1)  # PACKET_VNET_HDR: checksums and segments stay as they are
    end.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
    end.bind((name, 0))
    ends.append(end)
delay, frames = float(sys.argv[3]), []
print("ready", flush=True)
while True:
    wait = max(0, frames[0][0] - time.monotonic()) if frames else None
    for end in select.select(ends, [], [], wait)[0]:
        frame, now = end.recv(1 << 17), time.monotonic()
        heapq.heappush(frames, (now + delay, time.monotonic_ns(), ends.index(end), frame))
    while frames and frames[0][0] <= time.monotonic():
        _, _, number, frame = heapq.heappop(frames)
        try:
            ends[1 - number].send(frame)
        except OSError:
            pass
"""

FILTER = "nft add table inet t; nft add chain inet t i '{ type filter hook input priority 0; }'; "


class Hosts:
    """The hosts of a wrapped job, each of its own network, whose program says ``trained``."""

    def __init__(self, folder, **fields):
        for name in ("checkpoints", "data", "packages"):
            (folder / name).mkdir()
        (folder / "train.py").write_text("print('trained')\n")
        places = {
            "code_dir": str(folder),
            "checkpoint_dir": str(folder / "checkpoints"),
            "data_dir": str(folder / "data"),
            "model_dir": str(folder / "model"),
            "packages": str(folder / "packages"),
        }
        described = {"framework": "custom", "entrypoint": "train.py", "workers": 2}
        self.folder, self.job = folder, TrainingJob.create(**described | places | fields)
        manifest = render(self.job)
        wrapping.wrap(manifest, self.job, 8.0)
        self.manifest = read(manifest)
        self.pods = {pod.name: pod for pod in self.manifest.pods}
        self.report, self.said = Report(folder / "preflight.json"), []
        self.before = {}  # what runs a replica's command, by its name
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        self.network = self._stack.enter_context(Isolated(self.manifest))
        self._inside = self.network.inside
        self.network.inside = lambda pod, command, directory: self._inside(
            pod, [*self.before.get(pod.name, []), *command], directory
        )
        for name in self.pods:
            self.on(name, "mount -t tmpfs -o size=1g none /dev/shm")
        return self

    def __exit__(self, *_):
        self._stack.close()

    def on(self, replica, script):
        """Runs a shell's commands on the host of a replica, as root."""
        command = self._inside(self.pods[replica], ["sh", "-ec", script], "/")
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def delay(self, replica, seconds):
        """Has each packet from and to a replica come late."""
        host = f"host{self.network._number[replica]}"
        switch = ["nsenter", f"--target={self.network._switch}", "--net", "--"]
        script = (
            f"ip link set {host} nomaster promisc on; ip link add late type veth peer name bridged;"
            "ip link set late up promisc on; ip link set bridged master pods up"
        )
        subprocess.run([*switch, "sh", "-ec", script], check=True, timeout=60)
        command = [*switch, sys.executable, "-c", LATE, host, "late", str(seconds)]
        relay = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._stack.callback(relay.communicate)
        self._stack.callback(relay.kill)
        assert relay.stdout.readline() == "ready\n"

    def limit_processor(self, replica, share):
        """Gives a replica a share of one processor, as its pod's cgroup would."""
        cgroup = Path(tempfile.mkdtemp(prefix="trireme-", dir="/sys/fs/cgroup/cpu"))
        self._stack.callback(cgroup.rmdir)
        (cgroup / "cpu.cfs_quota_us").write_text(str(int(share * 100_000)))
        into = f'echo $$ > {cgroup}/tasks; exec "$@"'
        self.before[replica] = ["sh", "-c", into, "sh"]

    def run(self):
        """Runs the job until it has ended, or one of its replicas failed; returns its problems."""
        with tempfile.TemporaryDirectory() as temporary:
            begun = starts(self.manifest, self.network, self.folder, Path(temporary))
            processes = {pod.name: start() for pod, start in begun}
            with ThreadPoolExecutor(len(processes)) as pool:
                list(pool.map(self._follow, processes, [processes] * len(processes)))
        return self.report.problems

    @property
    def has_trained(self):
        return [name for name, line in self.said if line == "trained"]

    def _follow(self, name, processes):
        process = processes[name]
        for line in process.stdout:
            shown = self.report.shown(name, line.decode().rstrip("\n"))
            if shown is not None:
                self.said.append((name, shown))
        if process.wait():
            for other in processes.values():
                other.terminate()
