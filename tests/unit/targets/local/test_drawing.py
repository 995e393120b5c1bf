"""The picture of a run here, beside the report on its model and with its record in MLflow."""

import json
from types import SimpleNamespace

import pytest

from trireme.pages import RUN_LINK
from trireme.targets.local import drawing
from trireme.tracking import journal
from trireme.tracking.runs import PipelineRunId

PIPELINE = SimpleNamespace(
    name="pytorch-training",
    parameters={
        "args": SimpleNamespace(default=[]),
        "workers": SimpleNamespace(default=1),
        "job": SimpleNamespace(default={}),
    },
)
ARGUMENTS = {"args": ["--rate", "0.1"], "workers": 1, "job": {}}


@pytest.fixture
def directory(tmp_path, untracked):
    """The folder of a run that has ended."""
    directory = tmp_path / "run-1"
    with journal.opened(directory / "workspace", "train"):
        journal.log_tags({"git.commit": "0123", "dataset.fingerprint": "4567"})
    return directory


def test_the_picture_and_the_report_lead_to_each_other(directory):
    report = directory / "workspace" / "report.html"
    report.write_text(f"<p>0.9 right</p>\n{RUN_LINK}\n")
    for _ in range(2):  # as when it is resumed
        drawing.keep(directory, PIPELINE, ARGUMENTS, "FINISHED", "", "https://example.org/1")
    picture = (directory / "workspace" / "run.html").read_text()
    assert '<a href="report.html">Report on the model</a>' in picture
    assert '<a href="https://example.org/1">MLflow' in picture
    assert report.read_text() == '<p>0.9 right</p>\n<p><a href="run.html">The run</a></p>\n'


def test_a_run_without_a_report_is_drawn_as_well(directory):
    drawing.keep(directory, PIPELINE, ARGUMENTS, "FAILED", "the rate went to seed", "")
    picture = (directory / "workspace" / "run.html").read_text()
    assert "<a " not in picture
    assert "the rate went to seed" in picture and "trireme resume run-1" in picture
    assert "<dt>args</dt><dd>[&#34;--rate&#34;, &#34;0.1&#34;]</dd>" in picture
    assert "<summary>2 defaults</summary>" in picture


def test_a_picture_that_cannot_be_drawn_harms_nothing(directory, capsys):
    (directory / "workspace" / "run.html").mkdir()
    drawing.keep(directory, PIPELINE, ARGUMENTS, "FINISHED", "", "")
    assert "Traceback" in capsys.readouterr().err


def test_mlflow_gets_a_picture_whose_links_it_would_not_follow(directory):
    whole = PipelineRunId("7", "89ab")
    registered = {"model": "digits", "version": "3", "alias": "challenger", "late": ""}
    journal.registered_path(directory / "workspace").write_text(json.dumps(registered))
    told = drawing.conclusion(directory, PIPELINE, ARGUMENTS, "", "FINISHED", whole)
    assert "trireme reproduce run-1" in told.note and "trireme reproduce run-1" in told.page
    assert told.note.startswith("**FINISHED** · [The run](#/experiments/7/runs/89ab/artifacts/")
    assert "digits, version 3" in told.page and "<a " not in told.page
