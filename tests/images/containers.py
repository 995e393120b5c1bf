"""Containers of Trireme's images, for tests."""

import json
import os
import shlex
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

from images import build

OPTIONS = shlex.split(os.environ.get("RUN_OPTIONS", ""))
LIMIT = 240  # seconds that any one container may take
ENGINE = next((name for name in ("podman", "docker") if shutil.which(name)), "")


def engine(*arguments: str, timeout: float = LIMIT) -> subprocess.CompletedProcess[str]:
    """Runs podman or docker."""
    return subprocess.run([ENGINE, *arguments], capture_output=True, text=True, timeout=timeout)


def is_built(name: str) -> bool:
    """Whether the image is there."""
    return bool(ENGINE) and not engine("image", "inspect", build.tag(name, "cpu")).returncode


def inspected(name: str) -> dict[str, Any]:
    """What the engine says of an image."""
    return json.loads(engine("image", "inspect", build.tag(name, "cpu")).stdout)[0]


class Containers:
    """Containers on one network of their own, whose root is read-only; they see a workspace.

    Args:
        workspace: A directory, which is at the same path in all of them.
    """

    def __init__(self, workspace: Path) -> None:
        self.workspace, self.network = workspace, f"trireme-{uuid.uuid4().hex[:8]}"
        self._started: list[str] = []
        made = engine("network", "create", self.network)
        assert made.returncode == 0, made.stderr

    def _run(self, image: str, name: str, options: tuple[str, ...]) -> list[str]:
        mount = f"{self.workspace}:{self.workspace}"
        self._started.append(f"{self.network}-{name}")
        return [
            *("run", "--read-only", "--tmpfs", "/tmp", "--pull=never", "--volume", mount),
            *("--network", self.network, "--network-alias", name, "--hostname", name),
            *("--name", self._started[-1], *OPTIONS, *options, build.tag(image, "cpu")),
        ]

    def run(self, image: str, *command: str, name: str = "step", options: tuple[str, ...] = ()):
        """Runs a command in a container, to its end."""
        done = engine(*self._run(image, name, ("--rm", *options)), *command)
        self._started.pop()
        return done

    def start(self, image: str, *command: str, name: str, options: tuple[str, ...] = ()) -> str:
        """Starts a command in a container that goes on; returns the container's name."""
        done = engine(*self._run(image, name, ("--detach", *options)), *command)
        assert done.returncode == 0, done.stderr
        return self._started[-1]

    def wait(self, container: str) -> tuple[int, str]:
        """Waits for the end of a container; returns its exit status and output."""
        try:
            status = int(engine("wait", container).stdout)
        finally:
            logs = engine("logs", container)
            print(container, logs.stdout, logs.stderr)
        return status, logs.stdout + logs.stderr

    def close(self) -> None:
        """Removes all of them, and the network."""
        if self._started:
            engine("rm", "--force", "--time", "0", *self._started)
        engine("network", "rm", "--force", self.network)
