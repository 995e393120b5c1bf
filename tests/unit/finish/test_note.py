"""The description that MLflow shows of a run."""

import json

from trireme.finish import note
from trireme.tracking import journal
from trireme.tracking.runs import PipelineRunId

WHOLE = PipelineRunId("7", "0123")


def test_a_run_that_finished_is_told_in_a_few_lines(tmp_path, untracked):
    with journal.opened(tmp_path, "evaluate"):
        journal.log_headline({"held_out_accuracy": 0.97256})
        journal.log_tags({"champion": "better than the champion: +1.94 points"})
        journal.log_artifact(tmp_path / "report.html")
    journal.run_path(tmp_path, "evaluate").write_text("4567")
    registered = {"model": "digits", "version": "3", "alias": "champion", "late": ""}
    journal.registered_path(tmp_path).write_text(json.dumps(registered))
    (tmp_path / "report.html").touch()
    commands = {"Reproduce with": "trireme reproduce run-1"}
    assert note.write(tmp_path, "FINISHED", "", commands, WHOLE).splitlines() == [
        "**FINISHED** · [The run](#/experiments/7/runs/0123/artifacts/run.html"
        "?workflowType=machine_learning) · [Report on the model]"
        "(#/experiments/7/runs/4567/artifacts/report.html?workflowType=machine_learning)",
        "",
        "- Accuracy: 0.9726 on held-out samples",
        "- Registered: digits, version 3, champion",
        "- Champion: better than the champion: +1.94 points",
        "- Next: `trireme serve digits`",
        "- Reproduce with: `trireme reproduce run-1`",
    ]


def test_a_reason_is_a_line_and_no_markdown(tmp_path, untracked):
    reason = "the <b>labels</b> are [one](http://127.0.0.1) *too* many\nand more"
    _, _, line = note.write(tmp_path, "FAILED", reason, {}, WHOLE).splitlines()
    said = r"- the \<b\>labels\</b\> are \[one\](http://127.0.0.1) \*too\* many"
    assert line == said


def test_a_long_reason_fits(tmp_path, untracked):
    assert len(note.write(tmp_path, "FAILED", "x" * 9000, {}, WHOLE)) <= note.LONGEST
