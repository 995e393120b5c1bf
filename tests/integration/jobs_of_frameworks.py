"""Jobs of the frameworks' reference trainers, on this machine."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from line_by_line import line_by_line

import trireme
from trireme.data.description import Dataset
from trireme.data.staging import stage
from trireme.frameworks import FRAMEWORKS
from trireme.job.job import TrainingJob
from trireme.manifests import render
from trireme.runner.local import runner

ROOT = Path(trireme.__file__).parents[1]
LIMIT = 240  # seconds of one job

on_own_hosts = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip"), reason="needs root, and iproute2"
)


@dataclass
class Ran:
    """What a job has done."""

    folder: Path
    seconds: dict[str, float]
    said: list[tuple[str, str]]

    @property
    def speaker(self):
        """Who speaks for all."""
        return {name for name, line in self.said if " loss " in line}

    def lines(self, replica):
        return [line for name, line in self.said if name == replica]

    def figures(self, number):
        """Returns loss and accuracy of an epoch or round."""
        (found,) = [
            re.search(r"loss (\S+) accuracy (\S+)", line)
            for _, line in self.said
            if re.match(rf"(epoch|round) {number}/", line)
        ]
        return tuple(map(float, found.groups()))


def run(framework, folder, *args, workers, isolated=False):
    """Runs the reference trainer on the built-in digits; what it leaves is in the folder."""
    if not (folder / "data").exists():
        stage(Dataset(uri="builtin://digits"), folder / "data", folder / "cache")
    places = {
        "data_dir": folder / "data",
        "checkpoint_dir": folder / "checkpoints",
        "model_dir": folder / "model",
    }
    for place in places.values():
        place.mkdir(exist_ok=True)
    job = TrainingJob.create(
        name=framework,
        framework=framework,
        entrypoint=FRAMEWORKS[framework].trainer,
        code_dir=str(ROOT),
        args=list(args),
        workers=workers,
        time_limit=LIMIT,
        **{name: str(place) for name, place in places.items()},
    )
    said: list[tuple[str, str]] = []
    seconds = runner.run(
        render(job),
        folder / "logs",
        line_by_line(lambda *line: said.append(line)),
        isolated=isolated,
    )
    return Ran(folder, seconds, said)
