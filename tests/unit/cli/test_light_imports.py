"""Importing a component loads no framework: each step would pay for it at its start."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import trireme
from trireme.files.kept_record import LAYOUT
from trireme.pipeline.catalog import PIPELINES

ROOT = Path(trireme.__file__).parents[1]
BESIDE = ("components", "pipelines", "trainers")  # links there

# Whatever one of them loads is loaded in the end, and was not before the first that loads it. That
# each can also be imported alone is seen in a fork that has other people's modules, but not ours.
ONE_AFTER_ANOTHER = """
import importlib, json, os, sys

heavy, names = json.loads(sys.argv[1])
for name in names:
    before = set(sys.modules)
    importlib.import_module(name)
    print(json.dumps([name, sorted(set(heavy) & (set(sys.modules) - before))]), flush=True)

for ours in [name for name in sys.modules if name.split(".")[0] == "trireme"]:
    del sys.modules[ours]
for name in names:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            importlib.import_module(name)
            status = 0
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        print(json.dumps([name, ["cannot be imported alone"]]), flush=True)
"""

pytestmark = pytest.mark.slow


def our_modules() -> list[str]:
    """Returns the names of the steps' faces, after those of what does their work."""
    above = (
        "agents",
        "cli",
        "compiling",
        "doctor",
        "graph",
        "pipeline",
        "schedules",
        "targets",
        "terminal",
    )
    files = [
        file
        for file in sorted((ROOT / "trireme").glob("*/**/*.py"))
        if file.relative_to(ROOT / "trireme").parts[0] not in (*above, *BESIDE)
    ]
    files += sorted((ROOT / "components").glob("*/component.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    names = [name if name.startswith("trireme.") else f"trireme.{name}" for name in names]
    return [name.removesuffix(".__init__") for name in names]


def loaded(heavy: list[str], names: list[str]) -> list[tuple[str, str]]:
    """Returns which module loads which of the heavy ones, imported in this order."""
    result = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_ANOTHER, json.dumps([heavy, names])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert {name for name, _ in found} == set(names), result.stderr
    return [(name, culprit) for name, culprits in found for culprit in culprits]


def test_no_component_loads_a_framework_or_mlflow_nor_its_work_kfp():
    names = our_modules()
    assert {"trireme.runner.local.runner", "trireme.tracking.sync"} <= set(names)
    face = ("trireme.components.checkout.component", "kfp")  # the first of all component.py
    assert loaded(["torch", "tensorflow", "mlflow", "kfp"], names) == [face]


def work_of_base() -> set[str]:
    """Returns our modules that the steps in the base image import when they run."""
    steps = [
        step
        for face in (ROOT / "components").glob("*/component.py")
        for step in ast.parse(face.read_text()).body
        if isinstance(step, ast.FunctionDef)
        and "base_image=BASE" in ast.unparse(step.decorator_list[0])
    ]
    imports = [
        each for step in steps for each in ast.walk(step) if isinstance(each, ast.ImportFrom)
    ]
    names = {f"{each.module}.{alias.name}" for each in imports for alias in each.names}
    names |= {str(each.module) for each in imports}
    return names & set(our_modules())


def test_the_base_image_needs_no_numpy_for_its_steps_nor_for_pipelines():
    names = work_of_base() | {"trireme.data.sources.builtin"}
    assert {"trireme.code.git", "trireme.runner.training_step"} <= names
    modules = [f"trireme.pipelines.{name.replace('-', '_')}" for name in PIPELINES]
    assert loaded(["numpy"], [*sorted(names), *modules, "trireme.planning"]) == []


def test_the_command_line_loads_nothing_heavy_before_it_knows_what_to_do():
    assert loaded(["torch", "tensorflow", "mlflow", "kfp", "sklearn"], ["trireme.cli"]) == []


SHOWN = """
import sys
from trireme.cli import main

try:
    main()
finally:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""


def loaded_by(words: list[str], home: Path) -> set[str]:
    """Returns the modules that a command has loaded when it ends."""
    result = subprocess.run(
        [sys.executable, "-c", SHOWN, *words],
        cwd=ROOT,
        env=os.environ | {"TRIREME_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return set(result.stderr.splitlines())


@pytest.mark.parametrize("group", [[], ["job"]])
def test_help_of_a_group_loads_no_command(group: list[str], tmp_path: Path):
    found = loaded_by([*group, "--help"], tmp_path)
    files = {name for name in found if name.startswith("trireme.cli.")}
    assert files == {f"trireme.cli.{name}" for name in ("app", "lazy", *group)}
    # Commands of other packages are among those of the first group.
    not_needed = {"rich", "pydantic", "ssl"} | ({"importlib.metadata"} if group else set())
    assert found & not_needed == set()


@pytest.mark.parametrize("words", [["status", "one"], ["list"]])
def test_a_run_of_this_machine_is_shown_without_what_draws_or_asks_a_server(
    words: list[str], tmp_path: Path
):
    run = tmp_path / "runs" / "one"
    (run / "workspace").mkdir(parents=True)
    record = {"layout": LAYOUT, "cwd": "/", "state": "FINISHED", "started": 0, "seconds": 1}
    (run / "run.json").write_text(json.dumps(record))
    found = loaded_by(words, tmp_path)
    assert "trireme.targets.local.runs" in found
    assert found & {"rich", "pydantic", "ssl", "urllib.request", "filelock", "yaml"} == set()


def test_looking_at_the_jobs_of_a_cluster_loads_nothing_that_describes_jobs():
    assert loaded(["pydantic"], ["trireme.runner.cluster.jobs"]) == []
