"""The notebooks of the docs run as they are, in a kernel of this environment.

They are stored with their outputs: UPDATE_GOLDEN=1 stores them anew.
"""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).parents[2] / "docs" / "tutorials"

# As it stands in the page, which is the attribute of a frame.
MACHINE = "&lt;dt&gt;Machine&lt;/dt&gt;&lt;dd&gt;.*?&lt;/dd&gt;"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def executed(trireme, monkeypatch, tmp_path):
    """Runs a notebook; returns the outputs of each cell of code, by what the cell says."""

    def run(name):
        for variable in [name for name in os.environ if name.startswith("MLFLOW_")]:
            monkeypatch.delenv(variable)  # which other tests' MLflow has left
        for variable, value in trireme.environment.items():
            monkeypatch.setenv(variable, value)
        file = DOCS / f"{name}.ipynb"
        stored = nbformat.read(file, as_version=4)
        notebook = nbformat.read(file, as_version=4)
        (folder := tmp_path / "notebook").mkdir()
        client = NotebookClient(
            notebook, timeout=600, resources={"metadata": {"path": str(folder)}}
        )
        client.execute()
        assert [text for cell in notebook.cells for text in warnings_of(cell)] == []
        if os.environ.get("UPDATE_GOLDEN"):
            store(
                notebook, file, {str(trireme.home): "/home/you/.trireme", str(folder): "/home/you"}
            )
        else:
            assert [kinds_of(cell) for cell in stored.cells] == [
                kinds_of(cell) for cell in notebook.cells
            ]
        outputs = {}
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                data = output.get("data", {})
                text = data.get("text/html") or data.get("text/plain") or output.get("text")
                outputs[cell.source] = outputs.get(cell.source, "") + text
        return outputs

    return run


def warnings_of(cell):
    """Returns what a cell has printed to standard error."""
    outputs = cell.get("outputs", [])
    return [each["text"] for each in outputs if each.get("name") == "stderr"]


def kinds_of(cell):
    """Returns which kinds of outputs a cell has."""
    return [(each["output_type"], sorted(each.get("data", {}))) for each in cell.get("outputs", [])]


def store(notebook, file, places):
    """Stores a notebook as if it had run in other places, and on a machine of no name."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran
    text = nbformat.writes(notebook)
    for here, there in places.items():
        text = text.replace(here, there)
    file.write_text(re.sub(MACHINE, "", text) + "\n")


def test_the_first_run(executed, trireme):
    outputs = executed("first-run")
    table = outputs["run.wait();"]
    for step in ("checkout", "dataset", "train", "evaluate", "export", "finish"):
        assert f"<td>{step}</td><td>FINISHED</td>" in table
    assert table.count("<table>") == 1
    assert "held_out_accuracy" in outputs["run.metrics"]
    assert outputs["run.model_report"].startswith("<iframe srcdoc=")
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


def test_a_script_of_ones_own(executed):
    outputs = executed("own-script")
    (table,) = [text for source, text in outputs.items() if "run.wait()" in source]
    assert "<td>train</td><td>FINISHED</td>" in table
    rows = re.findall("<th>(\\d+)</th>", outputs["run.history.tail()"])
    assert rows == ["56", "57", "58", "59", "60"]
    (drawn,) = [source for source in outputs if ".plot(" in source]
    assert drawn in outputs
    assert "--epochs 60" in outputs["run.report"]
    (asked,) = [text for source, text in outputs.items() if "load_state_dict" in source]
    are, says = (re.findall(r"\d", line) for line in asked.splitlines() if "[" in line)
    assert sum(digit == answer for digit, answer in zip(are, says, strict=True)) >= 6
    assert "FINISHED" in outputs["trireme.runs()"]
    assert outputs['trireme.get("latest").status'] == "'FINISHED'"
