"""The all-reduce, seen from the replica that starts it: how far it came, and how long it took."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Mapping

from trireme.observers.preflight.replica.place import EACH, Place
from trireme.observers.preflight.replica.said import problem

SMALL, MEDIUM, LARGE, LEAST = 4 << 10, 1 << 20, 64 << 20, 2 << 20  # bytes
LARGE_TIME = 1.5  # seconds that the large one may take, as far as the links tell
SMALL_TIME = 0.5  # seconds for all of the small ones
LOADING = 120.0  # seconds to load a library
STALLED = 120.0  # seconds without progress, and EACH for each replica

_IN_WORDS = {SMALL: "small (4 KiB)", MEDIUM: "medium (1 MiB)"}


def sizes(rates: list[float], answers: list[float], replicas: int) -> list[tuple[int, int]]:
    """Returns how many bytes are reduced, and how often, by what all links are like."""
    slowest, slowest_answer = min(rates, default=0.0), max(answers, default=0.0)
    large = int(slowest * LARGE_TIME / 2)
    large = min(max(large, LEAST), LARGE) >> 12 << 12
    small_times = int(SMALL_TIME / max(2 * replicas * slowest_answer, 1e-4))
    return [(SMALL, min(max(small_times, 2), 50)), (MEDIUM, 3 if large >= LARGE else 1), (large, 1)]


class Collective:
    """The process of the all-reduce."""

    def __init__(self, source: str, library: str, place: Place) -> None:
        self._place, self._library = place, library
        self._lines: queue.Queue[str] = queue.Queue()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.problem: dict[str, Any] | None = None
        job = {"library": library, "rank": place.rank, "size": place.size}
        job = {**job, "address": place.address, "port": place.port}
        self._process = subprocess.Popen(
            [sys.executable, "-c", source, json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            errors="replace",
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        )
        threading.Thread(target=self._read, daemon=True).start()

    def load(self) -> dict[str, str] | None:
        """Returns further versions, when the library is loaded; ``None`` where it is not."""
        message = self._next(LOADING)
        if message is None:
            self.problem = problem(
                "library",
                self._place.name,
                f"replica {self._place.name} cannot load {self._library}: {self._why()}",
            )
            return None
        versions: dict[str, str] = message["versions"]
        return versions

    def run(self, plan: list[tuple[int, int]]) -> dict[str, float]:
        """Returns the seconds that each size takes."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps({"sizes": plan}) + "\n")
            self._process.stdin.flush()
        seconds: dict[str, float] = {}
        done = "a connection"
        steps = ["a connection", *(self._words(size) for size, _ in plan)]
        for step in steps:
            message = self._next(STALLED + EACH * self._place.size)
            if message is None:
                before = f", though {done} had" if step != steps[0] else ""
                self.problem = problem(
                    "size",
                    self._place.name,
                    f"replica {self._place.name}: with {self._library} {step} does not come "
                    f"through{before}: {self._why()}",
                    is_fatal=True,
                )
                break
            done = step
            if "size" in message:
                seconds[str(message["size"])] = message["seconds"]
        return seconds

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def _words(self, size: int) -> str:
        return f"a {_IN_WORDS.get(size) or f'large ({size >> 20} MiB)'} all-reduce"

    def _read(self) -> None:
        assert self._process.stdout
        try:
            for line in self._process.stdout:
                if line.startswith("{"):
                    self._lines.put(line)
        finally:
            self._lines.put("")

    def _next(self, limit: float) -> Mapping[str, Any] | None:
        try:
            line = self._lines.get(timeout=limit)
            return dict(json.loads(line)) if line else None
        except (queue.Empty, ValueError):
            return None

    def _why(self) -> str:
        """Returns the last thing that it has said, or that it has stalled."""
        time.sleep(0.1)
        if self._process.poll() is None:
            return "it has stalled"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else f"it exited with status {self._process.returncode}"
