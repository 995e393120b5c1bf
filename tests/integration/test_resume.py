"""trireme resume: a run goes on at the first step that is not done, in its own MLflow run."""

import time
from pathlib import Path

import pytest

from trireme.models.comparison import compare
from trireme.tracking import journal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DEFAULT = ("run", "pytorch-training", "-p", "workers=1", "-p", 'args=["--epochs", "5"]')

STEPS = '''
from kfp import dsl
from trireme import WORKSPACE, finishing


@dsl.component(base_image="python:3.11")
def note(text: str, file: str) -> str:
    """Writes a line."""
    with open(file, "a") as lines:
        print(text, file=lines)
    return text + "!"


@dsl.component(base_image="python:3.11")
def numbers() -> list:
    """Returns some."""
    return ["1", "2"]


@dsl.component(base_image="python:3.11")
def at_last(file: str, after: str):
    """Fails at first."""
    with open(file, "r+") as lines:
        before = lines.read()
        print("tried after", after, file=lines)
    if "tried" not in before:
        raise ValueError("not yet")


@dsl.pipeline(name="notes", pipeline_config=WORKSPACE)
def notes(file: str):
    with finishing("notes"):
        first = note(text="same", file=file)
        second = note(text="same", file=file).after(first)
        several = numbers().after(second)
        with dsl.ParallelFor(several.output) as number:
            note(text=number, file=file)
        with dsl.If(second.output == "same!"):
            at_last(file=file, after=second.output)
            note(text="last", file=file).after(several)
'''


def start_until(trireme, line, *command):
    """Starts a run and kills it when a line of its output begins like this; returns its name."""
    process = trireme.start(*command)
    deadline = time.monotonic() + 300
    while not process.stdout.readline().startswith(line):
        assert process.poll() is None
        assert time.monotonic() < deadline
    process.kill()
    process.communicate()
    name = trireme.run_directory().name
    assert trireme.call("status", name).stdout.startswith(f"{name}: lost")
    return name


def begun(trireme, *steps):
    workspace = trireme.run_directory() / "workspace"
    return {step: journal.span_of(workspace, step) for step in steps}


@pytest.fixture(scope="module")
def undisturbed(trireme_type, tmp_path_factory):
    """The model of a run that nothing happens to."""
    trireme = trireme_type(tmp_path_factory.mktemp("undisturbed"))
    result = trireme.run(*DEFAULT)
    assert result.returncode == 0, result.stderr
    return trireme.run_directory() / "workspace" / "model"


@pytest.mark.parametrize("killed_at", ["train     epoch 2/5", "dataset   finished"])
def test_a_run_that_was_killed_comes_to_the_same_model(trireme, undisturbed, killed_at):
    name = start_until(trireme, killed_at, *DEFAULT)
    before = begun(trireme, "checkout", "dataset")
    # Killed early, a run may not be in MLflow yet.
    records = [run for parent in trireme.parents() for run in trireme.nested(parent).values()]
    result = trireme.run("resume", name)
    assert (result.returncode, result.stderr) == (0, "")

    assert begun(trireme, "checkout", "dataset") == before
    assert result.stdout.count("kept: ") == 2
    directory = trireme.run_directory()
    assert directory.name == name
    steps = directory / "workspace" / "steps"
    assert (steps / "checkout" / "output.log").exists()
    trained = (steps / "train" / "output.log").read_text()
    assert ("epoch 1/5" in trained) == (killed_at == "dataset   finished")
    assert compare(undisturbed, directory / "workspace" / "model").identical

    (parent,) = trireme.parents()
    assert (parent.info.status, parent.info.run_name) == ("FINISHED", name)
    assert "error" not in parent.data.tags
    assert parent.data.metrics["held_out_accuracy"] > 0.8
    nested = trireme.nested(parent)
    assert {run.info.status for run in nested.values()} == {"FINISHED"}
    assert set(nested) == {"checkout", "dataset", "train", "evaluate", "export", "finish"}
    for run in records:
        assert nested[run.info.run_name].info.run_id == run.info.run_id
    assert trireme.call("status", name).stdout.startswith(f"{name}: FINISHED")
    assert trireme.wait_for_no_processes() == []


def test_a_resumed_run_says_that_the_code_has_changed(trireme, repository):
    code = repository(train="raise SystemExit(3)")
    Path(code, "train.py").write_text("raise SystemExit(4)")  # not committed
    given = (f"code_url={code}", "entrypoint=train.py", "model_name=broken")
    failed = trireme.run(
        "run", "pytorch-training", *(word for one in given for word in ("-p", one))
    )
    assert "exited with status 4" in failed.stderr
    name = trireme.run_directory().name
    assert "has changed since" not in trireme.run("resume", name).stdout
    Path(code, "train.py").write_text("print('mended')")
    resumed = trireme.run("resume", name)
    assert f"{code} has changed since; this goes on with the code of then, " in resumed.stdout
    assert "exited with status 4" in resumed.stderr
    (parent,) = trireme.parents()
    files = trireme.client.list_artifacts(trireme.nested(parent)["train"].info.run_id, "logs")
    kept = {file.path for file in files}
    assert kept == {"logs/master-0.1.log", "logs/master-0.2.log", "logs/master-0.log"}


def test_steps_that_are_done_are_not_run_again(trireme, tmp_path):
    (tmp_path / "notes.py").write_text(STEPS)
    lines = tmp_path / "lines"
    failed = trireme.run("run", str(tmp_path / "notes.py"), "-p", f"file={lines}")
    assert failed.returncode == 1
    assert "step at-last failed: ValueError: not yet" in failed.stderr
    assert sorted(lines.read_text().split()[:2]) == ["same", "same"]
    (parent,) = trireme.parents()
    (tmp_path / "notes.py").unlink()  # what is resumed is what was started
    name = trireme.run_directory().name

    resumed = trireme.run("resume", name)
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert sorted(lines.read_text().split()).count("same") == 2
    assert lines.read_text().count("tried") == 2
    assert lines.read_text().count("last") == 1
    turns = {f"note-3-{number:03}" for number in range(2)}
    logs = trireme.run_directory() / "workspace" / "steps"
    assert {log.parent.name for log in logs.glob("note-3*/output.log")} == turns
    (again,) = trireme.parents()
    assert again.info.run_id == parent.info.run_id
    assert (again.info.status, again.data.tags.get("error")) == ("FINISHED", None)
    nested = trireme.nested(again)
    assert {run.info.status for run in nested.values()} == {"FINISHED"}
    assert turns < nested.keys()
    assert "error" not in nested["at-last"].data.tags
    assert trireme.call("resume", name).returncode == 2


def test_a_mended_evaluation_program_goes_on_without_another_training(trireme, repository):
    code = repository(train="import os; open(os.environ['MODEL_DIR'] + '/model.txt', 'w')")
    program = Path(code, "evaluate.py")
    program.write_text("raise SystemExit(3)")  # not committed
    Path(code, "figures.py").write_text("ACCURACY = 0.7")
    given = (
        f"code_url={code}",
        "entrypoint=train.py",
        "model_name=mended",
        'evaluation={"entrypoint": "evaluate.py"}',
    )
    words = [word for one in given for word in ("-p", one)]
    failed = trireme.run("run", "pytorch-training", *words)
    assert "evaluation.entrypoint 'evaluate.py' exited with status 3" in failed.stderr
    name = trireme.run_directory().name
    trained = begun(trireme, "train")

    for pair, said in {
        "entrypoint=other.py": "-p entrypoint: resume changes only what comes after training (",
        "min_accuracy=7": "min_accuracy 7.0: must be between 0 and 1",
        'evaluation={"entrypoint": "no.py"}': "'no.py' does not exist in the code of the run",
    }.items():
        refused = trireme.call("resume", name, "-p", pair)
        assert refused.returncode == 2 and said in refused.stderr
    assert trireme.call("status", name).stdout.startswith(f"{name}: FAILED")

    program.write_text(
        "import json, os\nfrom figures import ACCURACY\n"
        "with open(os.environ['EVALUATION_DIR'] + '/metrics.json', 'w') as file:\n"
        "    json.dump({'accuracy': ACCURACY}, file)\n"
    )
    Path(code, "figures.py").write_text("ACCURACY = 0.1")  # all other code is that of then
    resumed = trireme.run("resume", name, "-p", "min_accuracy=0.5")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert f"note: {program} is run as it is now; all other code is that of the" in resumed.stdout
    assert "held-out accuracy 0.7000 reaches min_accuracy 0.5" in resumed.stdout
    assert begun(trireme, "train") == trained

    (parent,) = trireme.parents()
    assert (parent.data.params["min_accuracy"], parent.data.tags["resumed.min_accuracy"]) == (
        "0.9",
        "0.5",
    )
    tag = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    tried = trireme.client.search_runs([parent.info.experiment_id], tag)
    evaluated, failed = (run for run in tried if run.info.run_name == "evaluate")  # newest first
    assert (evaluated.info.status, failed.info.status) == ("FINISHED", "FAILED")
    assert failed.data.params["min_accuracy"] == "0.9"
    said = evaluated.data.tags["evaluation.program"]
    assert said.startswith(f"{program} as it was when the run was resumed, sha256:")
    kept = trireme.client.list_artifacts(evaluated.info.run_id, "evaluation-program")
    assert [file.path for file in kept] == ["evaluation-program/evaluate.py"]
