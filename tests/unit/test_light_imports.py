"""Importing a component loads no framework: each step would pay for it at its start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import components

ROOT = Path(components.__file__).parents[1]

# A fork of an interpreter that has imported nothing is as good as a new one, and much faster.
EACH_ALONE = """
import importlib, json, os, sys

forbidden, names = json.loads(sys.argv[1])
for name in names:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            importlib.import_module(name)
            print(json.dumps([name, sorted(set(forbidden) & set(sys.modules))]), flush=True)
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        print(json.dumps([name, ["cannot be imported"]]), flush=True)
"""


def modules_of_components() -> list[str]:
    files = sorted((ROOT / "components").rglob("*.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    return [
        name.removesuffix(".__init__")
        for name in names
        if not name.startswith("components.trainers")
    ]


def loaded(forbidden: list[str], names: list[str]) -> dict[str, list[str]]:
    """Returns which of the forbidden modules each of the named ones loads, imported alone."""
    result = subprocess.run(
        [sys.executable, "-c", EACH_ALONE, json.dumps([forbidden, names])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    found = dict(json.loads(line) for line in result.stdout.splitlines())
    assert set(found) == set(names), result.stderr
    return {name: culprits for name, culprits in found.items() if culprits}


@pytest.mark.slow
def test_no_component_loads_a_framework_or_mlflow():
    names = modules_of_components()
    assert {"components.training.local.runner", "components.tracking.sync"} <= set(names)
    assert loaded(["torch", "tensorflow", "mlflow"], names) == {}


def test_the_command_line_loads_nothing_heavy_before_it_knows_what_to_do():
    assert loaded(["torch", "tensorflow", "mlflow", "kfp", "sklearn"], ["pipelines.cli"]) == {}


def test_the_work_of_the_steps_loads_no_kfp():
    names = [name for name in modules_of_components() if not name.endswith(".component")]
    assert loaded(["kfp"], names) == {}
