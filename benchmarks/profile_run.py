"""Where the seconds of ``trireme run pytorch-training`` go, and those of the same work by hand.

Runs each once and prints a row per process: seconds it was there, of CPU, and of CPU within
imports, with the packages that took most of them. The processes of a row have the same command.

    python benchmarks/profile_run.py
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from pipeline import BIN, BY_HAND, tree

SAMPLE = 0.02  # seconds between two looks
HOOK = Path(__file__).with_name("import_time")
TICK = 1 / os.sysconf("SC_CLK_TCK")
NAMES = {
    r"supervisor\.py": "supervisors",
    r"--function_to_execute (\w+)": r"step \1",
    r"local\.warm": "what is loaded once, and the forks without a name",
    r"export/answering": "export: loads the files back",
    r"torchrun": "torchrun",
    r"(trainers/\S+/|^(\S*python\S* (-u )?)?)(\w+\.py)": r"\4",
    r"\bgit\b": "git",
    r"by_hand\.py": "the script",
    r"bin/(trireme) ": r"\1",
}


@dataclass
class Process:
    """What a process was, and what it used, in seconds."""

    command: str = ""
    first: float = 0.0
    last: float = 0.0
    cpu: float = 0.0
    imports: dict[str, float] = field(default_factory=dict)


def look(root: int, processes: dict[int, Process], ended: threading.Event) -> None:
    """Keeps what each process of a tree has used so far, until it has ended."""
    while not ended.wait(SAMPLE):
        for pid in tree(root):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            now = time.monotonic()
            process = processes.setdefault(pid, Process(first=now))
            process.command, process.last = words or process.command, now
            process.cpu = max(process.cpu, (int(fields[11]) + int(fields[12])) * TICK)


def profile(command: list[str], variables: dict[str, str]) -> tuple[dict[int, Process], float]:
    """Runs a command; returns its processes by id, and the CPU seconds of all together."""
    processes: dict[int, Process] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = os.environ | variables | {"TRIREME_PROFILE": folder, "PYTHONPATH": path}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, env=environment, **quiet)
        ended = threading.Event()
        watch = threading.Thread(target=look, args=(process.pid, processes, ended))
        watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        ended.set()
        watch.join()
        if status:
            sys.exit(f"{command} failed")
        for file in Path(folder).glob("*.json"):
            record = json.loads(file.read_text())
            entry = processes.setdefault(int(file.stem), Process())
            entry.command = " ".join(record["command"])
            entry.cpu, entry.imports = max(entry.cpu, record["cpu"]), record["imports"]
    return processes, usage.ru_utime + usage.ru_stime


def name_of(command: str) -> str:
    """Returns a short name for a command line."""
    for pattern, name in NAMES.items():
        if match := re.search(pattern, command):
            return match.expand(name)
    return "others"


def show(title: str, processes: dict[int, Process], cpu: float) -> None:
    """Prints the table of a run's processes."""
    print(f"\n| {title}: process | there, s | CPU, s | of it imports | most of these |")
    print("|---|---|---|---|---|")
    groups: dict[str, list[Process]] = {}
    for process in sorted(processes.values(), key=lambda process: process.first):
        groups.setdefault(name_of(process.command), []).append(process)
    for name, group in groups.items():
        packages: dict[str, float] = {}
        for process in group:
            for package, seconds in process.imports.items():
                packages[package] = packages.get(package, 0.0) + seconds
        most = sorted(packages.items(), key=lambda pair: -pair[1])[:4]
        words = ", ".join(f"{package} {seconds:.1f}" for package, seconds in most if seconds > 0.05)
        lifetime = max(one.last for one in group) - min(member.first for member in group)
        used = sum(member.cpu for member in group)
        many = f"{len(group)} x " if len(group) > 1 else ""
        imports = sum(packages.values())
        print(f"| {many}{name} | {lifetime:.1f} | {used:.2f} | {imports:.2f} | {words} |")
    known = sum(process.cpu for process in processes.values())
    print(f"| all | | {cpu:.2f} ({cpu - known:.2f} of short-lived ones) | | |", flush=True)


def main() -> None:
    """Profiles both, once what a first run sets up is there."""
    with tempfile.TemporaryDirectory() as directory:
        homes = Path(directory, "trireme"), Path(directory, "by-hand")
        homes[1].mkdir()
        runs = {
            "trireme": (
                [str(BIN / "trireme"), "run", "pytorch-training"],
                {"TRIREME_HOME": str(homes[0])},
            ),
            "by hand": ([sys.executable, str(BY_HAND), str(homes[1])], {}),
        }
        for command, variables in runs.values():
            profile(command, variables)
        for title, (command, variables) in runs.items():
            show(title, *profile(command, variables))


if __name__ == "__main__":
    main()
