"""trireme/tracking/journal.py: what a step records, on disk."""

import json
import subprocess
import sys
import time
from numbers import Real
from subprocess import PIPE

import pytest

from trireme.errors import StepFailed, TriremeError
from trireme.tracking import journal


def without_time(records):
    return [{key: value for key, value in record.items() if key != "time"} for record in records]


STEP = """
import sys, time
from pathlib import Path
from trireme.tracking import journal
with journal.opened(Path(sys.argv[1]), "finish"):
    journal.log_tags({"of": "the first, which is longer"})
    print("begun", flush=True)
    sys.stdin.readline()
    journal.summarize("the first")
    journal.log_end("KILLED")
"""


def test_two_processes_of_one_step_leave_whole_lines(workspace):
    """As Argo 4.1.2 starts the last step of a run that is cancelled."""
    command = [sys.executable, "-c", STEP, workspace]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as first:
        assert first.stdout.readline() == "begun\n"
        with journal.opened(workspace, "finish"):
            first.communicate("go on\n")
            journal.summarize("the second")
            journal.log_end("FINISHED")
    assert without_time(journal.read(workspace, "finish")) == [
        {"summary": "the first"},
        {"end": "KILLED"},
        {"summary": "the second"},
        {"end": "FINISHED"},
    ]


def test_what_a_step_records_is_read_back_in_order(workspace, tmp_path):
    with journal.opened(workspace, "train"):
        journal.log_params({"workers": 2, "args": ["--epochs", "3"]})
        journal.log_metrics({"loss": 0.5})
        journal.log_tags({"git.commit": "abc"})
        journal.log_headline({"accuracy": 0.9})
        journal.log_total({"cost": 1.5})
        journal.log_artifact(tmp_path / "log", "logs")
        journal.log_dataset("dataset", "s3://bucket/digits", "sha256:abc", 2, 300)
        journal.log_model(
            tmp_path / "m.onnx",
            "digits",
            tmp_path / "s.npz",
            tags={"weights": "7"},
            promote=True,
            champion="2",
        )
        journal.summarize("ü, two\nlines, \u2028")
        journal.log_error(StepFailed("too bad", "the end\nof a log"))
    assert without_time(journal.read(workspace, "train")) == [
        {"params": {"workers": 2, "args": ["--epochs", "3"]}},
        {"metrics": {"loss": 0.5}},
        {"tags": {"git.commit": "abc"}},
        {"headline": {"accuracy": 0.9}},
        {"total": {"cost": 1.5}},
        {"artifact": str(tmp_path / "log"), "folder": "logs"},
        {
            "dataset": {
                "uri": "s3://bucket/digits",
                "fingerprint": "sha256:abc",
                "files": 2,
                "bytes": 300,
                "context": "training",
            }
        },
        {
            "model": {
                "onnx": str(tmp_path / "m.onnx"),
                "name": "digits",
                "sample": str(tmp_path / "s.npz"),
                "tags": {"weights": "7"},
                "promote": True,
                "champion": "2",
            }
        },
        {"summary": "ü, two\nlines, \u2028"},
        {
            "error": {
                "message": "too bad",
                "detail": "the end\nof a log",
                "exit_status": 1,
                "is_fatal": True,
            }
        },
    ]


def test_records_can_be_read_while_the_step_goes_on(workspace):
    with journal.opened(workspace, "train"):
        journal.summarize("so far")
        assert without_time(journal.read(workspace, "train")) == [{"summary": "so far"}]


def test_a_cut_off_last_line_is_left_out(workspace):
    with journal.opened(workspace, "train"):
        journal.summarize("whole")
        journal.summarize("cut off")
    path = journal.journal_path(workspace, "train")
    for length in range(1, 20):
        path.write_bytes(path.read_bytes()[:-1])
        assert without_time(journal.read(workspace, "train")) == [{"summary": "whole"}], length


def test_a_step_that_was_killed_has_begun_and_not_ended(workspace):
    with journal.opened(workspace, "train"):
        journal.summarize("so far")
    began, ended = journal.span_of(workspace, "train")
    assert began <= time.time() and ended is None
    journal.journal_path(workspace, "train").write_text('{"begun": "tra')
    assert journal.span_of(workspace, "train") == (None, None)


def test_a_step_that_has_not_started_has_no_records(workspace):
    assert journal.read(workspace, "train") == []


def test_outside_of_a_step_nothing_is_recorded(workspace):
    journal.log_params({"a": 1})
    with journal.opened(workspace, "train"):
        pass
    journal.log_params({"a": 1})
    assert journal.read(workspace, "train") == []


def test_a_step_that_is_tried_again_starts_its_journal_anew(workspace):
    for word in ("first", "second"):
        with journal.opened(workspace, "train"):
            journal.summarize(word)
    assert without_time(journal.read(workspace, "train")) == [{"summary": "second"}]


def test_a_failing_step_closes_its_journal(workspace):
    with pytest.raises(ZeroDivisionError), journal.opened(workspace, "train"):
        journal.summarize("begun")
        _ = 1 // 0
    journal.summarize("too late")
    assert without_time(journal.read(workspace, "train")) == [{"summary": "begun"}]


def test_the_journal_is_lines_of_json(workspace):
    with journal.opened(workspace, "train"):
        journal.log_params({"text": "a\nb\u2028c"})
    lines = journal.journal_path(workspace, "train").read_text().splitlines()
    begun, params = map(json.loads, lines)
    assert begun["begun"] == "train" and begun["time"] <= params["time"]
    assert params["params"] == {"text": "a\nb\u2028c"}


class Float32:
    """A number of a library's own, as numpy.float32 is."""

    def __float__(self):
        return 0.5


Real.register(Float32)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (lambda: journal.log_metrics({"loss": "low"}), "log_metrics: loss 'low' is no number"),
        (lambda: journal.log_metrics({"loss": 10**400}), "log_metrics: loss 1000"),
        (lambda: journal.log_metrics({3: 0.5}), "log_metrics: the name 3 is no text"),
        (lambda: journal.log_metrics(0.5), "log_metrics: 0.5 has no names"),
        (lambda: journal.log_headline({"loss": None}), "log_headline: loss None is no number"),
        (lambda: journal.log_total({"cost": [1]}), r"log_total: cost \[1\] is no number"),
        (lambda: journal.log_tags({"of": 3}), "log_tags: of 3 is no text"),
        (lambda: journal.log_params({"of": {1, 2}}), "log_params: of {1, 2} is no value that"),
        (lambda: journal.summarize(3), "summarize: summary 3 is no text"),
    ],
)
def test_what_mlflow_would_refuse_fails_the_step_at_once(workspace, record, said):
    with journal.opened(workspace, "clean"), pytest.raises(TriremeError, match=said):
        record()
    assert without_time(journal.read(workspace, "clean")) == []


def test_a_number_of_a_library_is_one(workspace):
    with journal.opened(workspace, "clean"):
        journal.log_metrics({"loss": Float32(), "files": 2})
    recorded = without_time(journal.read(workspace, "clean"))
    assert recorded == [{"metrics": {"loss": 0.5, "files": 2}}]
