"""docs/tutorials/own-pipeline.md: its pipelines compile, and run."""

import re
from pathlib import Path

import pytest

from trireme.pipeline import catalog

PAGE = Path(__file__).parents[3] / "docs" / "tutorials" / "own-pipeline.md"


def programs() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_its_short_pipeline_compiles(tmp_path, trireme):
    program, _ = programs()
    (tmp_path / "flowers.py").write_text(program)
    words = ("compile", str(tmp_path / "flowers.py"), "-o", str(tmp_path))
    assert trireme(*words)[:2] == (0, f"{tmp_path}/flowers.yaml\n")


@pytest.mark.slow
def test_its_pipeline_runs(tmp_path, monkeypatch, trireme, untracked):
    _, program = programs()
    # The index of packages is not what is tested.
    program = program.replace(', packages_to_install=["numpy"]', ", install_kfp_package=False")
    (tmp_path / "digits.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    pipeline = catalog.load("digits.py")
    assert list(pipeline.parameters) == ["code_url", "workers", "least"]
    assert len(program.split("@dsl.pipeline")[1].splitlines()) < 12
    assert len(program.splitlines()) <= 36
    status, output, errors = trireme("run", "digits.py", "-p", "workers=0")
    assert (status, errors) == (0, "")
    assert "Registered  dark-digits, version 1, champion" in output
    (run,) = (untracked / "runs").iterdir()
    import numpy

    splits = [numpy.load(run / "workspace" / name / "train.npz") for name in ("data", "cleaned")]
    all_of_them, cleaned = (len(split["x"]) for split in splits)
    assert 0 < cleaned < all_of_them

    assert "run of digits, which is not one of Trireme's own" in trireme("reproduce", run.name)[2]
    status, output, errors = trireme("reproduce", run.name, "digits.py")
    assert (status, errors) == (0, "")
    assert f"is bit-identical, 6 tensors with 29,066 parameters, as that of {run.name}" in output
    (again,) = {*(untracked / "runs").iterdir()} - {run}
    done = {step.name for step in (again / "workspace" / "steps").iterdir() if step.is_dir()}
    assert {"cleaned", "data"} <= {each.name for each in (again / "workspace").iterdir()}
    assert {"train", "finish"} <= done and not done & {"evaluate", "export"}
