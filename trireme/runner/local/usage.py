"""The use that processes of this machine make of processors, memory and GPUs."""

import csv
import os
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from trireme.observers.preflight.replica import host

SPAN = 1.0  # seconds over which the use of processors is measured
ANSWER_LIMIT = 10.0  # seconds for nvidia-smi, which is slow where its driver is


class Used(NamedTuple):
    """What a process and all that it has started use."""

    cpu: float
    memory: float
    gpu: str


class _Process(NamedTuple):
    parent: int
    seconds: float


def measured(roots: Iterable[int]) -> dict[int, Used]:
    """Returns what processes use with all below them, by the ids of those that still run."""
    before, began = _processes(), time.monotonic()
    time.sleep(SPAN)
    after, span = _processes(), time.monotonic() - began
    gpus = _gpus()
    used = {}
    for root in roots:
        if root not in after or root not in before:
            continue
        tree = _tree(after, root)
        worked = _seconds(after, tree) - _seconds(before, _tree(before, root))
        # The first is our own supervisor, of which a container would have none.
        memory = sum(_memory(pid) for pid in tree[1:])
        gpu = ", ".join(text for pid in tree for text in gpus.get(pid, []))
        used[root] = Used(max(0.0, worked) / span, memory, gpu)
    return used


def children(parent: int) -> set[int]:
    """Returns the ids of the processes that a process has started itself."""
    return {pid for pid, process in _processes().items() if process.parent == parent}


def tree(supervisor_pid: int) -> list[int]:
    """Returns the ids of what runs under a supervisor, parents first."""
    return _tree(_processes(), supervisor_pid)[1:]


def cpu_seconds(supervisors: Mapping[str, int]) -> dict[str, float]:
    """Returns the processor time of what runs under supervisors, by what their ids are called."""
    processes = _processes()
    trees = {name: _tree(processes, pid)[1:] for name, pid in supervisors.items()}
    return {name: _seconds(processes, under) for name, under in trees.items() if under}


def memory(supervisors: Mapping[str, int]) -> dict[str, float]:
    """Returns the bytes of what runs under supervisors, by what their ids are called."""
    processes = _processes()
    return {
        name: float(sum(map(_memory, under)))
        for name, pid in supervisors.items()
        if (under := _tree(processes, pid)[1:])
    }


def idle() -> tuple[float, float]:
    """Returns how long this machine's processors have had nothing to do, and have been there."""
    # https://man7.org/linux/man-pages/man5/proc_stat.5.html
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return float(ticks[3] + ticks[4]), float(sum(ticks))


def cores() -> int:
    """Returns how many processors of this machine there are for this process, at least one."""
    return max(1, int(host.cores()))  # a container may have fewer than it sees


def _processes() -> dict[int, _Process]:
    """Returns all processes, with the processor time of them and of their children that ended."""
    # https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    tick = os.sysconf("SC_CLK_TCK")
    table = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_bytes().rpartition(b") ")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        table[int(directory.name)] = _Process(int(fields[1]), sum(map(int, fields[11:15])) / tick)
    return table


def _tree(processes: dict[int, _Process], root: int) -> list[int]:
    below = defaultdict(list)
    for pid, process in processes.items():
        below[process.parent].append(pid)
    tree = [root]
    for pid in tree:
        tree += below[pid]
    return tree


def _seconds(processes: dict[int, _Process], pids: Iterable[int]) -> float:
    return sum(processes[pid].seconds for pid in pids)


def _memory(pid: int) -> int:
    """Returns the bytes of a process, each page that it shares in as many parts as have it."""
    # Else the pages that workers of a data loader share would count once for each of them.
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        sizes = dict(line.split(":", 1) for line in lines[1:])
        return int(sizes["Pss"].split()[0]) * 1024
    except (OSError, KeyError):  # it has ended, or its kernel does not tell
        return _resident(pid)


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _gpus() -> dict[int, list[str]]:
    """Returns which GPUs processes use, in words, by their ids."""
    if not has_gpu():
        return {}
    busy = {
        uuid: (index, share) for uuid, index, share in _asked("gpu", "uuid,index,utilization.gpu")
    }
    gpus_by_pid: dict[int, list[str]] = defaultdict(list)
    for pid, uuid, memory in _asked("compute-apps", "pid,gpu_uuid,used_memory"):
        if uuid in busy and pid.isdigit():
            index, share = busy[uuid]  # of time, by all that use it
            words = [f"{share}%"] if share.isdigit() else []
            words += [f"{int(memory) / 1024:.1f}Gi"] if memory.isdigit() else []
            gpus_by_pid[int(pid)].append(f"{index}: {' '.join(words) or '-'}")
    return gpus_by_pid


class Gpu(NamedTuple):
    """A GPU: who uses it, shares of time and of memory in use, and its compute capability."""

    name: str
    processes: set[int]
    busy: float
    memory: float
    capability: float


def gpus() -> list[Gpu]:
    """Returns the GPUs of this machine."""
    if not has_gpu():
        return []
    found_gpus = []
    processes: dict[str, set[int]] = defaultdict(set)
    for pid, uuid in _asked("compute-apps", "pid,gpu_uuid"):
        if pid.isdigit():
            processes[uuid].add(int(pid))
    # Asked for apart: asked for a field that its driver does not know it says nothing at all.
    capability = dict(_asked("gpu", "uuid,compute_cap"))
    fields = "uuid,index,name,utilization.gpu,memory.used,memory.total"
    for uuid, index, name, *numbers in _asked("gpu", fields):
        if all(number.isdigit() for number in numbers) and int(numbers[2]):
            busy, used, total = map(int, numbers)
            gpu = f"{index}: {name}", processes[uuid], busy / 100, used / total
            version = capability.get(uuid, "")  # such as 9.0, or [N/A]
            found_gpus.append(Gpu(*gpu, float(version) if version[:1].isdigit() else 0.0))
    return found_gpus


def gpu_numbers() -> list[str]:
    """Returns the numbers of this machine's GPUs."""
    return [number for (number,) in _asked("gpu", "index")]


def has_gpu() -> bool:
    """Tells whether this machine may have an NVIDIA GPU."""
    return shutil.which("nvidia-smi") is not None


def gpus_work() -> bool:
    """Tells whether an NVIDIA GPU of this machine is in use, whoever uses it, or may be."""
    if not has_gpu():
        return False
    shares = _asked("gpu", "utilization.gpu")
    return not shares or any(share != "0" for (share,) in shares)


def _asked(query: str, fields: str) -> list[list[str]]:
    """Returns what nvidia-smi tells, a line for each; nothing where it fails."""
    command = ["nvidia-smi", f"--query-{query}={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_LIMIT)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = csv.reader(done.stdout.splitlines(), skipinitialspace=True)
    columns = len(fields.split(","))
    return [line for line in lines if not done.returncode and len(line) == columns]
