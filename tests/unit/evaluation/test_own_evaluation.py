"""trireme/evaluation/custom.py: a program of the user's that evaluates the model."""

import json
import os
import re
import signal
import sys
import time

import numpy as np
import pytest

from trireme.errors import InputError, StepFailed
from trireme.evaluation import custom, report
from trireme.evaluation.evaluate import evaluate_with
from trireme.evaluation.options import CustomEvaluation, Gate, check
from trireme.evaluation.source import Source
from trireme.tracking.registry import Champion

PROGRAM = """
import json, os, sys
from pathlib import Path
import numpy as np
scores = np.loadtxt(Path(os.environ["MODEL_DIR"], "scores.txt"))
assert Path(os.environ["DATA_DIR"]).is_dir() and Path(os.environ["CODE_DIR"], "custom.py").exists()
found = Path(os.environ["EVALUATION_DIR"])
(found / "metrics.json").write_text(json.dumps({"bleu": scores.mean(), "pages": len(sys.argv)}))
np.save(found / "scores.npy", scores)
(found / "lengths.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
print("evaluated", *sys.argv[1:])
"""


@pytest.fixture
def judge(tmp_path):
    """Has a program judge a model that scores so, against a champion that scores so."""
    for name in ("code", "data", "model", "champion"):
        (tmp_path / name).mkdir()
    (tmp_path / "code" / "custom.py").write_text(PROGRAM)

    def run(scores, of_champion=None, gate=None, args=()):
        np.savetxt(tmp_path / "model" / "scores.txt", scores)
        champion = None
        if of_champion is not None:
            np.savetxt(tmp_path / "champion" / "scores.txt", of_champion)
            champion = Champion("4", None, {}, tmp_path / "champion")
        return evaluate_with(
            CustomEvaluation(entrypoint="custom.py", args=list(args)),
            tmp_path / "evaluation",
            Source(tmp_path / "model", tmp_path / "code"),
            tmp_path / "data",
            0.9,
            Gate.read("gate", gate or {}),
            champion,
        )

    return run


def test_what_it_leaves_running_is_not_waited_for(judge, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(custom, "LATE", 0.5)
    leaving = "import subprocess\nleft = subprocess.Popen(['sleep', '60'])\n"
    tell = "Path(os.environ['EVALUATION_DIR'], 'pid').write_text(str(left.pid))\n"
    (tmp_path / "code" / "custom.py").write_text(leaving + PROGRAM + tell)
    started = time.monotonic()
    try:
        assert judge([0.25, 0.75]).verdict.score == 0.5
        assert time.monotonic() - started < 50
        assert "evaluated" in capfd.readouterr().out
    finally:
        os.kill(int((tmp_path / "evaluation" / "pid").read_text()), signal.SIGKILL)


def test_a_program_ends_that_nobody_reads(judge, tmp_path, monkeypatch):
    def write(text):
        raise OSError("no space left on device")

    (tmp_path / "code" / "custom.py").write_text(PROGRAM + "print('x\\n' * 200_000)\n")
    monkeypatch.setattr(sys.stdout, "write", write)
    assert judge([0.25, 0.75]).verdict.score == 0.5


def test_its_figures_are_those_of_the_model(judge, tmp_path, capfd):
    judged = judge([0.25, 0.75], args=["--beams", "4"])
    assert judged.verdict.passed and judged.verdict.promote
    assert judged.verdict.score == 0.5
    assert judged.evaluation.figures == {"bleu": 0.5, "pages": 3}
    assert "evaluated --beams 4" in capfd.readouterr().out
    page = tmp_path / "report.html"
    report.write(page, judged, tmp_path, tmp_path / "data")
    assert "<h1>bleu 0.5</h1>" in page.read_text()
    assert 'src="data:image/svg+xml;base64,' in page.read_text()


def test_a_table_that_it_leaves_is_in_the_report(judge, tmp_path):
    rows = [{"asked": "1 < 2?", "model": "Yes.", "base model": "<b>?"}, {"asked": "and?"}]
    leaves = f"(found / 'samples.json').write_text(json.dumps({rows!r}))\n"
    (tmp_path / "code" / "custom.py").write_text(PROGRAM + leaves)
    page = tmp_path / "report.html"
    report.write(page, judge([0.25, 0.75]), tmp_path, tmp_path / "data")
    assert re.findall("<th[^>]*>(asked|model|base model)</th>", page.read_text()) == [*rows[0]]
    assert ">&lt;b&gt;?</td>" in page.read_text()


@pytest.mark.parametrize("text", ["{", "{}", "[1]"])
def test_a_table_in_another_form_fails_the_step(judge, tmp_path, text):
    leaves = f"(found / 'samples.json').write_text({text!r})\n"
    (tmp_path / "code" / "custom.py").write_text(PROGRAM + leaves)
    with pytest.raises(StepFailed, match=r"samples.json (cannot be read|is not a list)"):
        judge([0.25, 0.75])


def test_it_gets_variables_that_are_empty_too(judge, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    program = tmp_path / "code" / "custom.py"
    wanted = "import os; assert os.environ['CUDA_VISIBLE_DEVICES'] == ''\n"
    program.write_text(wanted + program.read_text())
    judge([1, 1, 0, 1])


def test_the_gate_asks_for_them(judge):
    judged = judge([0.25, 0.75], gate={"least": {"bleu": 0.6}})
    assert not judged.verdict.passed
    assert judged.verdict.reason == "held-out bleu 0.5 is below gate.least 0.6"


def test_the_champion_is_evaluated_on_the_same_samples(judge):
    random = np.random.default_rng(0)
    scores = random.random(200)
    better = judge(scores + 0.1, scores)
    assert better.verdict.promote and better.verdict.champion == "4"
    assert (
        better.verdict.against
        == "better than the champion: +0.1 of bleu against version 4 (+0.09703 to +0.1)"
    )
    assert not judge(scores, scores + 0.1).verdict.promote
    assert not judge(scores, scores[1:]).verdict.promote


def test_scores_of_another_kind_than_the_headline_are_not_called_by_its_name(judge, tmp_path):
    program = tmp_path / "code" / "custom.py"
    program.write_text(
        program.read_text().replace("scores.npy", "other.npy")
        + ("np.save(found / 'scores.npy', 100 * scores)")
    )
    against = judge([0.5, 0.7], [0.4, 0.6]).verdict.against
    assert against.startswith("perhaps better than the champion")
    assert ": +10 of scores.npy against version 4 (" in against


def test_without_scores_no_champion_is_beaten(judge, tmp_path):
    program = tmp_path / "code" / "custom.py"
    program.write_text(program.read_text().replace("np.save(", "print("))
    judged = judge([0.25, 0.75], [0.1, 0.1])
    assert judged.verdict.passed and not judged.verdict.promote
    assert "wrote no scores.npy" in judged.verdict.against


def test_a_program_that_fails_fails_the_step(judge, tmp_path):
    (tmp_path / "code" / "custom.py").write_text("print('reading')\nraise ValueError('no beams')")
    with pytest.raises(StepFailed, match=r"'custom.py' exited with status 1") as caught:
        judge([1.0])
    assert "ValueError: no beams" in caught.value.detail


@pytest.mark.parametrize("of", ["model", "champion"])
def test_what_it_leaves_must_not_lead_elsewhere_even_if_it_fails_of_the_champion(
    judge, tmp_path, of, capsys
):
    program = tmp_path / "code" / "custom.py"
    link = f"""
if os.environ["MODEL_DIR"].endswith("/{of}"):
    (found / "zeros.png").symlink_to("/dev/zero")
    sys.exit(int("{of}" == "champion"))
"""
    program.write_text(program.read_text() + link)
    judge([0.25, 0.75], [0.1, 0.1])
    assert "zeros.png', which leaves it for '/dev/zero' is not kept\n" in capsys.readouterr().out
    assert [*tmp_path.rglob("zeros.png")] == []


def test_a_program_that_is_killed_is_said_to_be(judge, tmp_path):
    (tmp_path / "code" / "custom.py").write_text("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(StepFailed, match="was ended by SIGKILL"):
        judge([1.0])


def test_a_program_that_is_not_there_is_refused(judge, tmp_path):
    (tmp_path / "code" / "custom.py").unlink()
    with pytest.raises(InputError, match=r"evaluation.entrypoint 'custom.py' does not exist"):
        judge([1.0])


@pytest.mark.parametrize(
    "content",
    [
        *(None, "", "[]", "{}", '{"a": "b"}', '{"a": true}', '{"a": NaN}', '{"a": 1e999}'),
        f'{{"a": {"9" * 400}}}',
    ],
)
def test_figures_in_another_form_fail_the_step(judge, tmp_path, content):
    write = f"p.write_text({content!r})" if content is not None else ""
    program = "import os, pathlib\np = pathlib.Path(os.environ['EVALUATION_DIR'], 'metrics.json')\n"
    (tmp_path / "code" / "custom.py").write_text(program + write)
    with pytest.raises(StepFailed, match=r"'custom.py': .*metrics.json") as caught:
        judge([1.0])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ('{"accuracy": 12.5}', "'accuracy' is 12.5, but must be between 0 and 1"),
        ('{"bleu": 1, "accuracy": -0.1}', "'accuracy' is -0.1, but must be between 0 and 1"),
        ('{"accuracy": 1.001}', "'accuracy' is 1.001, but must be between 0 and 1"),
        ('{"macro_f1": 80}', "'macro_f1' is 80, but must be between 0 and 1"),
        ('{"recall_7": 80}', "'recall_7' is 80, but must be between 0 and 1"),
        ('{"rmse": -2.5}', "'rmse' is -2.5, but must not be below 0"),
        ('{"r2": 1.5}', "'r2' is 1.5, but must not be above 1"),
        ('{"bleu": 1, "wer": 2, "bleu": 3}', "no readable metrics.json: 'bleu' is given twice"),
    ],
)
def test_figures_that_cannot_be_are_refused(tmp_path, figures, said):
    (tmp_path / "metrics.json").write_text(figures)
    with pytest.raises(custom.NotLoadable, match=said):
        custom.read(tmp_path)


@pytest.mark.parametrize(
    "figures",
    [{"accuracy": 1.0000001}, {"accuracy": 0}, {"r2": -3, "loss": -2, "bleu": 30, "gain": -1}],
)
def test_figures_that_can_be_are_taken(tmp_path, figures):
    (tmp_path / "metrics.json").write_text(json.dumps(figures))
    assert custom.read(tmp_path).figures == figures


@pytest.mark.parametrize("evaluation", [{}, {"entrypoint": "custom.py"}])
@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ({"least": {"accuracy": 90}}, r"^gate.least.accuracy 90: must be between 0 and 1$"),
        ({"most": {"recall_7": -1}}, r"^gate.most.recall_7 -1: must be between 0 and 1$"),
        ({"most": {"rmse": -1}}, r"^gate.most.rmse -1: must not be below 0$"),
        ({"least": {"r2": 2}}, r"^gate.least.r2 2: must not be above 1$"),
    ],
)
def test_a_threshold_that_no_figure_can_have_is_refused(evaluation, gate, said):
    with pytest.raises(InputError, match=said):
        check(0.9, gate, evaluation)


@pytest.mark.parametrize(
    ("file", "array"),
    [
        ("scores.npy", np.zeros((2, 2))),
        ("scores.npy", np.array([np.inf])),
        ("scores.npy", np.zeros(0)),
        ("scores.npy", np.array(["a"])),
        ("inputs.npy", np.array([{}, {}])),
        ("inputs.npy", np.float32(1)),
    ],
)
def test_arrays_in_another_form_are_refused(tmp_path, file, array):
    (tmp_path / "metrics.json").write_text(json.dumps({"bleu": 1}))
    np.save(tmp_path / file, array)
    with pytest.raises(custom.NotLoadable, match=file):
        custom.read(tmp_path)


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (["a film", "b"], "<U6"),
        (
            [{"age": 1, "city": "Bonn"}, {"age": 2.5, "city": "Ulm"}],
            [("age", "f8"), ("city", "<U4")],
        ),
    ],
)
def test_inputs_may_be_texts_or_rows_of_a_table(tmp_path, given, dtype):
    (tmp_path / "metrics.json").write_text(json.dumps({"bleu": 1}))
    (tmp_path / "inputs.json").write_text(json.dumps(given))
    custom.read(tmp_path)
    found = custom.inputs_of(tmp_path)
    assert found.dtype == np.dtype(dtype)
    assert found.tolist() == [
        tuple(row.values()) if isinstance(row, dict) else row for row in given
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "inputs.json cannot be read: "),
        ("[]", "inputs.json is neither a list of texts nor one of objects with the same names"),
        ('["a", 1]', "is neither a list of texts"),
        ('[{"a": 1}, {"b": 1}]', "is neither a list of texts"),
        ('[{"a": 1}, {"a": "x"}]', "'a' is not a number in each object, nor a text"),
        ('[{"a": [1]}]', "'a' is not a number in each object, nor a text"),
        ('[{"a": null}]', "'a' is not a number in each object, nor a text"),
    ],
)
def test_inputs_that_are_neither_are_refused(tmp_path, text, said):
    (tmp_path / "inputs.json").write_text(text)
    with pytest.raises(custom.NotLoadable) as refused:
        custom.inputs_of(tmp_path)
    assert said in str(refused.value)


def test_a_file_of_several_arrays_is_none(tmp_path):
    (tmp_path / "metrics.json").write_text(json.dumps({"bleu": 1}))
    with (tmp_path / "scores.npy").open("wb") as file:
        np.savez(file, np.zeros(3))
    with pytest.raises(custom.NotLoadable, match=r"scores.npy is not a readable array"):
        custom.read(tmp_path)


def test_what_is_found_of_the_champion_is_not_recorded_with_the_model(
    judge, tmp_path, monkeypatch, untracked
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.example.org")
    monkeypatch.setenv("MLFLOW_RUN_ID", "r1")
    program = tmp_path / "code" / "custom.py"
    program.write_text(
        program.read_text()
        + "(found / 'seen').write_text(os.environ.get('MLFLOW_RUN_ID', 'none')"
        + " + os.environ['MLFLOW_TRACKING_URI'])"
    )
    judge([1.0, 1.0], [0.5, 0.5])
    found = tmp_path / "evaluation"
    assert (found / "seen").read_text() == "r1http://mlflow.example.org"
    assert (found / "champion" / "seen").read_text().startswith("nonesqlite:///")


@pytest.mark.parametrize(
    ("evaluation", "said"),
    [
        (
            {"program": "custom.py"},
            "evaluation.program is not a field; evaluation has entrypoint",
        ),
        ({"args": ["x"]}, "evaluation.entrypoint is needed; evaluation has entrypoint, args"),
        ({"entrypoint": "custom.py", "args": "x"}, "evaluation.args 'x': "),
        ({"entrypoint": "custom.sh"}, "must be a .py file in the repository"),
        ({"entrypoint": "../custom.py"}, "must be a .py file in the repository"),
        ({"entrypoint": "/custom.py"}, "must be a .py file in the repository"),
        ({"entrypoint": "custom.py", "args": ["a\0b"]}, "args.0 .*must not hold a NUL"),
        ({"entrypoint": "custom.py", "env": {"A": "\0"}}, "env.A .*must not hold a NUL"),
    ],
)
def test_what_cannot_be_is_refused_before_a_run(evaluation, said):
    with pytest.raises(InputError, match=said):
        check(0.9, {}, evaluation)
