"""The report of a preflight, read from what the replicas of a job print."""

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from trireme.errors import JobFailed
from trireme.files.whole_file import write_whole
from trireme.observers.base import Observer
from trireme.observers.preflight.replica import slow
from trireme.observers.preflight.replica.collective import MEDIUM, SMALL
from trireme.observers.preflight.replica.said import LADDER, MARK
from trireme.observers.timeline import UNREADABLE, by_number

NAME = "preflight.json"
"""The file, beside the replicas' logs; also the artifact of the training's run."""

CERTAIN = 45.0
"""Seconds that all replicas have run after which what keeps one waiting is a fault."""

TOGETHER = 3.0
"""Seconds after the first fault in which others may come that explain it."""

FEW = 64  # replicas after each of whose records the file is written

SIZE_LIMIT = 4 << 20  # bytes of a file that is read


class PreflightFailed(JobFailed):
    """The job must not train as it is; the message names the replica and what to do about it."""


class Report:
    """What is known of a job's preflight; to be called from several threads.

    Attributes:
        problems: What is wrong, the cause first.
        passed: When the replicas had met and found what they had to, by the time of day.
    """

    def __init__(self, file: Path | None = None) -> None:
        """Starts with nothing known; what becomes known is kept in the file."""
        self._file, self._lock = file, threading.Lock()
        self._found: dict[str, dict[str, Any]] = {}
        self._waiting: dict[str, dict[str, Any]] = {}
        self.problems: list[dict[str, Any]] = []
        self.passed: list[float] = []
        self._seconds: float | None = None
        self._failed_at: float | None = None
        self._have_met = False

    def shown(self, replica: str, line: str) -> str | None:
        """Takes in a line; returns what a person is to see of it, if anything."""
        if not line.startswith(MARK):
            return line
        try:
            content = json.loads(line[len(MARK) :])
            with self._lock:
                return self._take(replica, content)
        except UNREADABLE:
            return line  # a program has printed it

    @property
    def content(self) -> dict[str, Any]:
        """What the file holds; nothing as long as there is no verdict."""
        if self._seconds is None and not self.problems:
            return {}
        names = sorted(self._found, key=by_number)
        return {
            "seconds": self._seconds,
            "problems": self.problems,
            "replicas": [self._found[name] for name in names],
        }

    @property
    def failure(self) -> PreflightFailed | None:
        """Why the job must not train; ``None`` where it may."""
        fatal = [problem["sentence"] for problem in self.problems if problem["fatal"]]
        if not fatal:
            return None
        return PreflightFailed(f"preflight: {fatal[0]}", "\n".join(fatal[1:]))

    def check(self, all_run_for: float) -> None:
        """Ends a job that must not train, or whose replicas wait for what will not come.

        Args:
            all_run_for: Seconds that all replicas have run.

        Raises:
            PreflightFailed: There is a fault.
        """
        with self._lock:
            if self._failed_at is None:
                # One that is started again when the others train may wait.
                if self._waiting and not self._have_met and all_run_for > CERTAIN:
                    self._add(list(self._waiting.values()))
                    self._failed_at = 0.0
                else:
                    return
            is_time = time.monotonic() >= self._failed_at + TOGETHER
        if is_time and self.failure:
            raise self.failure

    def metrics(self) -> dict[str, float]:
        """Returns figures of the whole job for MLflow."""
        content = self.content
        self._keep()
        return figures(content) if content else {}

    def _take(self, replica: str, content: dict[str, Any]) -> str | None:
        self._waiting.pop(replica, None)
        if waiting := content.get("waiting"):
            self._waiting[replica] = waiting
            return None  # as any does whose pod came before the others'
        if content.keys() & {"all_here", "skipped", "verdict"}:
            self._waiting.clear()
            self._have_met = True
        if "skipped" in content:
            return f"preflight was skipped: {content['skipped']}"
        if "record" in content:
            alone = {"seconds": None, "problems": [], "replicas": [content["record"]]}
            figures(alone)  # a program can print it, too
            table(alone)
            self._found[str(content["record"]["replica"])] = content["record"]
        if "verdict" in content:
            if "seconds" in content["verdict"]:  # of all, and so of the newest start
                self._seconds = content["verdict"]["seconds"]
                self.problems, self._failed_at = [], None
                self.passed.append(time.time())
            self._add(content["verdict"]["problems"])
        if "verdict" in content or len(self._found) <= FEW:
            self._keep()
        return _summary(self.content) if "verdict" in content and not self.failure else None

    def _add(self, problems: list[dict[str, Any]]) -> None:
        known = {problem["sentence"] for problem in self.problems}
        self.problems += [problem for problem in problems if problem["sentence"] not in known]
        self.problems.sort(
            key=lambda problem: (not problem["fatal"], LADDER.index(problem["step"]))
        )
        if self._failed_at is None and any(problem["fatal"] for problem in self.problems):
            self._failed_at = time.monotonic()

    def _keep(self) -> None:
        if self._file and self.content:
            with suppress(OSError):  # a full disk
                self._file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self._file, json.dumps(self.content))


class PreflightLines(Observer):
    """Reads the lines of a preflight, which are for machines, and shows what they are for persons.

    Attributes:
        report: What is known of it.
    """

    def __init__(self, file: Path | None = None) -> None:
        """Starts with nothing known; what becomes known is kept in the file."""
        self.report = Report(file)

    def shown(self, replica: str, line: str) -> str | None:
        """Takes in a line; returns what a person is to see of it, if anything."""
        return self.report.shown(replica, line)


def read(file: Path) -> dict[str, Any]:
    """Returns what a file of a preflight holds; nothing where it is none."""
    try:
        if file.stat().st_size > SIZE_LIMIT:
            return {}
        content = json.loads(file.read_text(encoding="utf-8"))
        figures(content)  # a program can write to it
        table(content)
        [(problem["sentence"], problem["fatal"]) for problem in content["problems"]]
        return dict(content)
    except (OSError, *UNREADABLE):
        return {}


def figures(content: dict[str, Any]) -> dict[str, float]:
    """Returns the figures of a preflight by the names that they have in MLflow."""
    records = content["replicas"]
    links = [link for record in records for link in record["links"]]
    values = {"problems": float(len(content["problems"]))}
    if content["seconds"] is not None:
        values["seconds"] = content["seconds"]
    if rates := [link["rate"] for link in links if "rate" in link]:
        values["slowest_link_gbit_per_s"] = min(rates) * 8 / 1e9
        values["slowest_answer_ms"] = 1000 * max(link["answer"] for link in links)
    if clocks := [record["clock"] for record in records]:
        values["clocks_apart_s"] = max(clocks) - min(clocks)
    slowest: dict[int, float] = {}
    for record in records:
        for size, seconds in record["all_reduce"].items():
            slowest[int(size)] = max(seconds, slowest.get(int(size), 0.0))
    count = len(records)
    for size, seconds in slowest.items():
        # The size of the large one is not the same in all runs, which are to be compared.
        name = {SMALL: "small", MEDIUM: "medium"}.get(size, "large")
        # As NCCL's tests count it: what each replica sends.
        rate = 2 * (count - 1) / count * size * 8 / 1e9 / seconds
        values[f"all_reduce_{name}_gbit_per_s"] = rate
        if name == "large":
            values["all_reduce_large_mib"] = size / 2**20
    return {f"preflight/{name}": float(value) for name, value in values.items()}


HEADINGS = [
    *("REPLICA", "ANSWERS", "SENDS", "RECEIVES", "SENT AGAIN", "CLOCK", "CPUS", "SPEED"),
    *("MEMORY", "SHM", "WRITES", "READS DATA"),
]


def table(content: dict[str, Any]) -> list[list[str]]:
    """Returns a row for each replica, as ``HEADINGS`` says, for a person."""
    records = content["replicas"]
    clocks = sorted(record["clock"] for record in records)
    fastest = max((record["speed"] for record in records), default=0.0)
    network, rows = slow.network(records), []
    for record in records:
        disk, data, shm = record["disk"], record["data"], record["shm"]
        links = network.get(record["replica"])
        rows.append(
            [
                record["replica"],
                f"{1000 * links.answer:.1f} ms" if links else "-",
                slow.speed(links.sends) if links else "-",
                slow.speed(links.receives) if links else "-",
                f"{100 * links.resent:.1f} %" if links else "-",
                f"{record['clock'] - clocks[len(clocks) // 2]:+.3f} s",
                f"{record['cores']:g}",
                f"{record['speed'] / fastest:.0%}" if fastest else "-",
                f"{record['memory'] / 2**30:.1f} GiB",
                f"{shm['free'] / 2**30:.1f} GiB" if shm else "-",
                f"{disk['write'] / 1e6:.0f} MB/s" if "write" in disk else disk.get("error", "-"),
                f"{data['read'] / 1e6:.0f} MB/s" if "read" in data else data.get("error", "-"),
            ]
        )
    return rows


def _summary(content: dict[str, Any]) -> str:
    count = len(content["problems"])
    warnings = f", {count} {'warning' if count == 1 else 'warnings'}" if count else ""
    return f"preflight passed in {content['seconds']:.1f} s{warnings}"
