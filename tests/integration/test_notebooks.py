"""The notebooks of the docs run as they are, in a kernel of this environment."""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def executed(trireme, monkeypatch, tmp_path):
    """Runs a notebook; returns the last output of each cell of code, by what the cell says."""

    def run(name):
        for variable in [name for name in os.environ if name.startswith("MLFLOW_")]:
            monkeypatch.delenv(variable)  # which other tests' MLflow has left
        for variable, value in trireme.environment.items():
            monkeypatch.setenv(variable, value)
        notebook = nbformat.read(DOCS / f"{name}.ipynb", as_version=4)
        assert all(not cell.get("outputs") for cell in notebook.cells)
        client = NotebookClient(
            notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
        )
        client.execute()
        outputs = {}
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                data = output.get("data", {})
                text = data.get("text/html") or data.get("text/plain") or output.get("text")
                outputs[cell.source] = outputs.get(cell.source, "") + text
        return outputs

    return run


def test_the_first_run(executed, trireme):
    outputs = executed("first-run")
    table = outputs["run.wait();"]
    for step in ("checkout", "dataset", "train", "evaluate", "export", "finish"):
        assert f"<td>{step}</td><td>FINISHED</td>" in table
    assert table.count("<table>") == 1
    assert "held_out_accuracy" in outputs["run.metrics"]
    assert outputs["run.report"].startswith("<iframe srcdoc=")
    (asked,) = [text for source, text in outputs.items() if "load_model" in source]
    are, says = (re.findall(r"\d", line) for line in asked.splitlines() if "[" in line)
    assert sum(digit == answer for digit, answer in zip(are, says, strict=True)) >= 6
    (parent,) = trireme.parents()
    assert parent.info.status == "FINISHED"


def test_a_pipeline_of_ones_own(executed):
    outputs = executed("own-pipeline")
    (table,) = [text for source, text in outputs.items() if "run.wait()" in source]
    assert "<td>clean</td><td>FINISHED</td>" in table
    (said,) = [text for source, text in outputs.items() if "run.logs" in source]
    assert "[clean] train.npz: " in said
    assert "held_out_accuracy" in said
