"""docs/own-pipelines.md: its tables are those of the steps, and its pipeline runs."""

import inspect
import os
import re
from pathlib import Path

import pytest

from trireme import steps
from trireme.components.checkout.component import checkout
from trireme.components.dataset.component import dataset
from trireme.components.deployment.component import deploy
from trireme.components.evaluation.component import evaluate
from trireme.components.export.component import export
from trireme.components.training.component import train
from trireme.pipeline import catalog

PAGE = Path(__file__).parents[3] / "docs" / "own-pipelines.md"
MARK = "from the functions and the components that they add. -->\n"
COMPONENTS = (checkout, dataset, train, evaluate, export, deploy)


def tables() -> str:
    return "".join(table(component) for component in COMPONENTS)


def table(component) -> str:
    function = getattr(steps, component.name)
    texts = arguments(function)
    lines = [f"### {component.name}", component.description.strip().splitlines()[0], ""]
    lines += ["| input | default | |", "|---|---|---|"]
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            default = parameter.default
            shown = "" if default is inspect.Parameter.empty else f"`{literal(default)}`"
            lines.append(f"| `{parameter.name}` | {shown} | {texts[parameter.name]} |")
    lines += ["", "| output | type | |", "|---|---|---|"]
    for name, output in component.component_spec.outputs.items():
        kind = output.type.partition("@")[0].removeprefix("system.")
        text = " ".join((output.description or described(component, name)).split())
        lines.append(f"| `{name}` | {kind} | {text} |")
    return "\n".join(["", *lines, ""])


def literal(default) -> str:
    return {None: "{}", (): "[]"}.get(default, f"{default!r}".replace("'", '"'))


def described(component, name: str) -> str:
    """What an artifact is, or a single output, which kfp does not keep of its docstring."""
    if name == "Output":
        text = inspect.cleandoc(component.python_func.__doc__).partition("\nReturns:\n")[2]
        return text.partition("\n\n")[0]
    return arguments(component.python_func).get(name, "")


def arguments(function) -> dict[str, str]:
    text = inspect.cleandoc(function.__doc__).partition("\nArgs:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", text, re.MULTILINE)
    return {name: " ".join(said.split()).replace("``", "`") for name, said in found}


def test_golden_tables_are_those_of_the_steps():
    above, _, below = PAGE.read_text().partition(MARK)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        PAGE.write_text(above + MARK + tables())
        return
    assert below == tables(), "make golden writes them again"


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
