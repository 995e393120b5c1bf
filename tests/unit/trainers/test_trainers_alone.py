"""trainers: a user who copies what a program names has all that it needs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TRAINERS = Path(__file__).resolve().parents[3] / "trainers"

IMAGES = {"x": np.zeros((6, 1, 8, 8), np.float32), "y": np.arange(6) % 3}
BYTES = IMAGES | {"y": IMAGES["y"].astype(np.uint8)}
TOKENS = {"x": np.zeros((4, 8), np.uint8), "y": np.ones((4, 8), np.int64)}


# One process loads the framework, which takes seconds; each program has a fork of it to itself. Not
# even what is installed beside its packages is there, such as we are.
ALONE = """
import importlib, json, os, runpy, sys

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "trireme":
            raise ImportError(name)

sys.meta_path.insert(0, Absent)
framework, programs = json.loads(sys.argv[1])
importlib.import_module(framework)
for folder, *command in programs:
    if not os.fork():
        os.chdir(folder)
        sys.argv[:] = command
        runpy.run_path(command[0], run_name="__main__")
        sys.exit()
    if os.wait()[1]:
        sys.exit(f"{command[0]} has failed")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "programs"),
    [
        (
            "torch",
            {
                "pytorch_classifier.py": (IMAGES, "--epochs", "1"),
                "mpi_classifier.py": (IMAGES, "--epochs", "1"),
                "language_model.py": (TOKENS, "--steps", "1", "--batch-size", "2"),
            },
        ),
        ("tensorflow", {"tensorflow_classifier.py": (BYTES, "--epochs", "1")}),
        ("jaxlib", {"jax_classifier.py": (IMAGES, "--epochs", "1")}),
        ("xgboost", {"xgboost_classifier.py": (IMAGES, "--rounds", "1")}),
    ],
)
def test_programs_run_with_what_they_say_is_to_be_copied(tmp_path, framework, programs):
    if not shutil.which("mpirun"):
        programs = {name: how for name, how in programs.items() if "mpi" not in name}
    started = []
    for program, (data, *arguments) in programs.items():
        original = TRAINERS / program
        folder = tmp_path / original.stem
        (folder / "data").mkdir(parents=True)
        np.savez(folder / "data" / "train.npz", **data)
        (named,) = re.findall(r"^Copy along: {(.*)}\.py$", original.read_text(), re.MULTILINE)
        for name in [original.stem, *named.split(",")]:
            shutil.copy(original.with_name(f"{name}.py"), folder)
        started.append([str(folder), original.name, *arguments])
    ours = ("MLFLOW_", "TF_CONFIG", "PYTHONPATH", "DATA_DIR", "MODEL_DIR", "CHECKPOINT_DIR")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [sys.executable, "-c", ALONE, json.dumps([framework, started])],
        cwd=tmp_path,
        env=environment | {"CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for folder, *_ in started:
        assert list(Path(folder, "model").glob("model*")), done.stdout
