"""``trireme run tensorflow-training``: whole runs of the reference trainer."""

import pytest

pytestmark = pytest.mark.slow


def check(trireme, result, replicas):
    """Looks at what any run leaves; returns the MLflow runs of its steps, and its folder."""
    assert result.returncode == 0, result.stdout + result.stderr
    (parent,) = trireme.parents()
    assert parent.info.status == "FINISHED"
    assert parent.data.metrics["held_out_accuracy"] > 0.9
    steps = trireme.nested(parent)
    assert steps["train"].data.params["framework"] == "tensorflow"
    run = trireme.run_directory()
    train = run / "workspace" / "steps" / "train"
    assert {file.stem for file in train.glob("*-*.log")} == replicas
    assert "kind: TFJob" in (train / "job.yaml").read_text()
    return steps, run / "workspace"


def test_digits_are_learnt_exported_and_registered(trireme):
    done = trireme.call("run", "tensorflow-training", PYTHONPROFILEIMPORTTIME="1")
    steps, workspace = check(trireme, done, {"worker-0", "worker-1"})
    assert set(steps) == {"checkout", "dataset", "train", "evaluate", "export", "finish"}
    assert trireme.parents()[0].data.metrics["held_out_accuracy"] > 0.95
    for step in ("evaluate", "export"):
        assert {"tensorflow", "torch"} & trireme.loaded(step) == {"tensorflow"}
    assert (workspace / "exported" / "saved_model" / "saved_model.pb").exists()
    assert trireme.client.get_model_version("classifier", "1").status == "READY"


def test_digits_are_learnt_with_a_parameter_server(trireme):
    """What comes after evaluation is as in any other run, and is not done again."""
    done = trireme.call(
        *("run", "tensorflow-training", "-p", "parameter_servers=1", "-p", "workers=1"),
        *("-p", 'args=["--epochs", "5"]', "-p", "min_accuracy=1"),
    )
    steps, _ = check(trireme, done, {"chief-0", "ps-0", "worker-0"})
    assert set(steps) == {"checkout", "dataset", "train", "evaluate", "finish"}
