"""Looking at what the processes of a job do, from outside: nothing is loaded into a program.

Each look asks py-spy for the stacks of the Python processes of each replica, and the kernel which
of their threads run. A look at a process takes about 15 ms of a processor, and does not stop it.
"""

import json
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trireme.errors import JobFailed
from trireme.observers.advice import frames
from trireme.observers.advice.frames import Frame, Thread
from trireme.observers.advice.measured import FEWEST, Gpu, Use
from trireme.observers.base import Job, Observer
from trireme.runner.local import stacks, usage
from trireme.text.say import say

PAUSE = 0.25  # seconds between two looks, on average: not in step with the program
RESOURCES = 2.0  # seconds between two looks at memory and GPUs
ANSWER_LIMIT = 5.0  # seconds for py-spy
MOST = 32  # processes that are looked at
START_LIMIT = 900.0  # seconds until the first step
LONGER = 5  # times as long as it is asked to it looks, where the machine lets it look seldom


class _Seen(Counter[str]):
    """What a process was seen to do, and how often."""

    @property
    def trains(self) -> bool:
        """Whether it has been seen in a step, and does not load data for another process."""
        did = (frames.DATA, frames.COMPUTE, frames.COMMUNICATION)
        return any(self[kind] for kind in did) and not self.loads

    @property
    def loads(self) -> bool:
        """Whether it loads data for another process."""
        return self[frames.LOADER] + self[frames.LOADER_WAITS] > 0


class Enough(JobFailed):
    """A job ends that was only run to be looked at."""


class Look(Observer):
    """Looks at a job from its start on, and ends it when that is enough.

    Attributes:
        looking: The thread that looks; None before the job has started.
    """

    def __init__(self, seconds: float, peers: int) -> None:
        """Prepares it; see ``Looking``."""
        self._seconds, self._peers = seconds, peers
        self._began, self._has_said = time.monotonic(), False
        self.looking: Looking | None = None

    def tick(self, job: Job) -> None:
        """Begins to look; raises ``Enough`` when it has seen enough."""
        if job.has_ended:
            return
        if self.looking is None:
            self.looking = Looking(job.pids(), self._seconds, peers=self._peers)
            try:
                self.looking.start()
            except RuntimeError as error:
                raise JobFailed(f"nothing can be measured: {error}") from None
        waited = time.monotonic() - self._began
        if self.looking.first_step is not None and not self._has_said:
            self._has_said = True
            say(f"the first step came after {waited:.0f} s; measuring for {self._seconds:.0f} s")
        is_late = self.looking.first_step is None and waited > START_LIMIT
        if is_late or self.looking.done.is_set():
            self.looking.done.set()
            self.looking.join()
            raise Enough("enough has been seen of the job")


class Looking(threading.Thread):
    """A thread that looks at replicas from their first step on, for some time.

    Attributes:
        done: Whether it has seen enough.
        first_step: When the first step was seen, by the monotonic clock.
        problem: Why it sees nothing.
        seconds: For how long it has looked since then.
    """

    def __init__(self, pids: Mapping[str, int], seconds: float, *, peers: int) -> None:
        """Prepares it.

        Args:
            pids: The supervisors of the replicas, by their names.
            seconds: For how long it is to look, after the first step.
            peers: How many processes train.
        """
        super().__init__(daemon=True)
        self._pids, self._limit, self._peers = dict(pids), seconds, peers
        self._spy = stacks.spy() or "py-spy"
        self.done, self.problem = threading.Event(), ""
        self.first_step: float | None = None
        self.seconds = 0.0
        self.has_tf_data, self.by_gradients = False, True
        self._seen: dict[str, dict[int, _Seen]] = defaultdict(lambda: defaultdict(_Seen))
        self._memory: dict[str, float] = {}
        self._gpus: dict[str, list[usage.Gpu]] = defaultdict(list)
        self._gpu_processes: set[int] = set()
        self._cpu_before: dict[str, float] = {}
        self._cpu: dict[str, float] = {}
        self._idle_before = self._idle_after = usage.idle()
        self._next_resources = 0.0

    def run(self) -> None:
        """Looks until that is enough."""
        try:
            self._run()
        except Exception as fault:  # of ours
            self.problem = f"{type(fault).__name__}: {fault}"
        finally:
            self.done.set()

    def _run(self) -> None:
        while not self.done.is_set():
            self._take_resources()
            self._look()
            if self.first_step is not None:
                self.seconds = time.monotonic() - self.first_step
                looks = sum(sum(use.looks.values()) for use in self.uses().values())
                limit = self._limit if looks >= FEWEST else LONGER * self._limit
                if self.seconds >= limit:
                    self.done.set()
            # Programs have rhythms of their own.
            time.sleep(random.uniform(0.5, 1.5) * PAUSE)

    def uses(self) -> dict[str, Use]:
        """Returns what each replica did and used."""
        uses = {}
        for name in self._pids:
            process_looks = list(self._seen[name].values())
            trainers = [process for process in process_looks if process.trains]
            loaders = [process for process in process_looks if process.loads]
            work = sum(process[frames.LOADER] for process in loaders)
            waits = sum(process[frames.LOADER_WAITS] for process in loaders)
            looks = Counter[str]()
            for process in trainers:
                looks.update({kind: process[kind] for kind in frames.KINDS if kind in process})
            uses[name] = Use(
                self.seconds,
                self._cpus(name),
                self._memory.get(name),
                looks,
                round(len(loaders) / max(1, len(trainers))),
                work / max(1, work + waits),
                len(trainers),
            )
        return uses

    def gpus(self) -> list[Gpu]:
        """Returns the GPUs of this machine on which processes of the job ran."""
        return [
            Gpu(
                name,
                sum(value.busy for value in values) / len(values),
                max(value.memory for value in values),
                values[0].capability,
            )
            for name, values in self._gpus.items()
        ]

    @property
    def idle(self) -> float | None:
        """The share of this machine's processors that nobody used meanwhile."""
        idle, all_of_it = (
            after - before
            for before, after in zip(self._idle_before, self._idle_after, strict=True)
        )
        return idle / all_of_it if all_of_it > 0 else None

    def _cpus(self, name: str) -> float | None:
        if name not in self._cpu or name not in self._cpu_before or self.seconds <= 0:
            return None
        return max(0.0, self._cpu[name] - self._cpu_before[name]) / self.seconds

    def _look(self) -> None:
        """Looks once at each process."""
        for name, supervisor in self._pids.items():
            pids = [pid for pid in usage.tree(supervisor) if stacks.is_python(pid)]
            for pid in pids[:MOST]:
                kind = self._kind(pid)
                if kind == frames.COMPUTE and self.first_step is None:
                    self._begin()
                if kind and self.first_step is not None:
                    self._seen[name][pid][kind] += 1

    def _begin(self) -> None:
        """Takes in that the first step has come."""
        self.first_step = time.monotonic()
        self._cpu_before = usage.cpu_seconds(self._pids)
        self._idle_before = usage.idle()

    def _kind(self, pid: int) -> str:
        """Returns what a process does; empty where that cannot be told."""
        dumps = self._stacks(pid)
        main = next((dump for dump in dumps if dump["os_thread_id"] == pid), None)
        if main is None:
            return ""
        threads = _threads(pid)
        others = [(dump["os_thread_id"], _frames(dump)) for dump in dumps if dump is not main]
        stack = _frames(main)
        self.has_tf_data |= frames.has_tf_data(stack)
        self.by_gradients &= not frames.exchanges_no_gradients(stack)
        return frames.kind(
            stack,
            main["active"],
            others,
            [thread for thread in threads if thread.number != pid],
            has_peers=self._peers > 1,
            has_gpu=pid in self._gpu_processes,
        )

    def _stacks(self, pid: int) -> list[dict[str, Any]]:
        text, problem = stacks.dump(self._spy, pid, ANSWER_LIMIT, "--json")
        self.problem = problem and (self.problem or problem)
        try:
            return list(json.loads(text))
        except ValueError:
            return []  # it is about to end

    def _take_resources(self) -> None:
        self._cpu |= usage.cpu_seconds(self._pids)
        self._idle_after = usage.idle()
        if time.monotonic() < self._next_resources:
            return
        self._next_resources = time.monotonic() + RESOURCES
        for name, used in usage.memory(self._pids).items():
            self._memory[name] = max(used, self._memory.get(name, 0.0))
        trees = {pid for supervisor in self._pids.values() for pid in usage.tree(supervisor)}
        for gpu in usage.gpus():
            if gpu.processes & trees:
                self._gpu_processes |= gpu.processes & trees
                self._gpus[gpu.name].append(gpu)


def _frames(thread: Mapping[str, Any]) -> list[Frame]:
    return [
        Frame(frame["name"], frame.get("short_filename") or frame["filename"])
        for frame in thread["frames"]
    ]


def _threads(pid: int) -> list[Thread]:
    """Returns the native threads of a process."""
    threads = []
    for directory in Path(f"/proc/{pid}/task").glob("[0-9]*"):
        try:
            text = (directory / "stat").read_text(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        name, _, rest = text.partition(" (")[2].rpartition(") ")
        threads.append(Thread(int(directory.name), name, rest[:1] == "R"))
    return threads
