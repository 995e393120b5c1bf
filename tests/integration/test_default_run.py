"""What the default run leaves, looked at from all sides; it runs once for all of these tests."""

import re
import shutil
from pathlib import Path

import mlflow
import numpy as np
import pytest
import tracking_uri
import yaml

from trireme.code import builtin

EPOCHS = 15
PRICES = "{currency: EUR, cpu_hour: 3600, gib_hour: 0, gpu_hour: 0}"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory, request):
    trireme = request.getfixturevalue("trireme_type")(tmp_path_factory.mktemp("home"))
    (trireme.home / "prices.yaml").write_text(PRICES)
    result = trireme.run("run", "pytorch-training")
    assert result.returncode == 0, result.stderr
    assert trireme.wait_for_no_processes() == []
    return trireme, result


@pytest.fixture(scope="module")
def trireme(finished):
    return finished[0]


@pytest.fixture(scope="module")
def parent(trireme):
    (parent,) = trireme.parents()
    return parent


@pytest.fixture(scope="module")
def steps(trireme, parent):
    return trireme.nested(parent)


@pytest.fixture(scope="module")
def workspace(trireme):
    return trireme.run_directory() / "workspace"


def test_the_model_is_good(parent):
    assert parent.data.metrics["held_out_accuracy"] >= 0.95


def test_every_run_ends_finished(parent, steps):
    assert set(steps) == {"checkout", "dataset", "train", "evaluate", "export", "finish"}
    assert {run.info.status for run in [parent, *steps.values()]} == {"FINISHED"}


def test_a_reader_of_a_pipe_sees_the_epochs_and_the_summary(finished, workspace):
    output = finished[1].stdout
    assert f"epoch {EPOCHS}/{EPOCHS} loss" in output
    assert "\x1b" not in output
    for place in ("report.html", "exported"):
        assert str(workspace / place) in output
    assert "classifier, version 1, champion" in output
    assert "trireme ui" in output
    assert finished[1].stderr == ""


def test_the_commit_is_recorded(parent, steps, workspace):
    for run in (parent, steps["checkout"]):
        assert run.data.tags["git.commit"] == builtin.commit()
        assert run.data.tags["git.url"] == "builtin://trainers"
        assert run.data.tags["trainers.version"] == builtin.version()
    assert (workspace / "code" / "trainers" / "pytorch_classifier.py").exists()


def test_the_dataset_is_recorded(parent):
    assert parent.data.tags["dataset.fingerprint"].startswith("sha256:")
    assert parent.data.tags["dataset.uri"] == "builtin://digits"


def test_the_parameters_and_packages_are_recorded(trireme, parent):
    assert parent.data.params["workers"] == "-1"
    assert parent.data.params["dataset_uri"] == "builtin://digits"
    packages = trireme.client.download_artifacts(parent.info.run_id, "environment.txt")
    assert "torch==2.13.0" in Path(packages).read_text()


def test_the_steps_resources_are_recorded(steps):
    for run in steps.values():
        assert run.data.metrics["duration_seconds"] > 0
        assert run.data.metrics["cpu_seconds"] > 0
        assert run.data.metrics["peak_memory_bytes"] > 1e6


def test_the_cost_is_recorded_and_shown(finished, parent, steps, workspace):
    metrics = {name: run.data.metrics for name, run in steps.items()}
    # Training costs what its two replicas request, 250m CPU each; a step what it used.
    assert metrics["train"]["cost"] == pytest.approx(metrics["train"]["replica_seconds"] / 4)
    assert 0 < metrics["export"]["cost"] <= metrics["export"]["cpu_seconds"]
    charged = set(steps) - {"finish"}
    total = sum(metrics[name]["cost"] for name in charged)
    assert parent.data.metrics["cost"] == pytest.approx(total)
    assert parent.data.tags["currency"] == "EUR"
    assert f"Cost        {parent.data.metrics['cost']:,.2f} EUR\n" in finished[1].stdout
    report = (workspace / "report.html").read_text()
    assert f"{metrics['train']['cost']:,.2f} EUR of it for training" in report


def test_rank_zero_logged_every_epoch_once(trireme, steps):
    history = trireme.client.get_metric_history(steps["train"].info.run_id, "loss")
    assert [metric.step for metric in history] == list(range(1, EPOCHS + 1))
    assert history[-1].value < history[0].value


def test_the_manifest_is_readable_and_kept(trireme, steps, workspace):
    manifest = yaml.safe_load((workspace / "steps" / "train" / "job.yaml").read_text())
    assert manifest["kind"] == "PyTorchJob"
    assert set(manifest["spec"]["pytorchReplicaSpecs"]) == {"Master", "Worker"}
    kept = {file.path for file in trireme.client.list_artifacts(steps["train"].info.run_id)}
    assert {"job.yaml", "replicas.json", "model", "logs"} <= kept


def test_every_log_is_kept(workspace):
    logs = workspace / "steps"
    assert "epoch 1/15" in (logs / "train" / "master-0.log").read_text()
    assert "[master-0] epoch 1/15" in (logs / "train" / "output.log").read_text()
    assert (logs / "train" / "worker-0.log").exists()
    for step in ("checkout", "dataset", "evaluate", "export"):
        assert (logs / step / "output.log").stat().st_size > 0


def test_the_evaluation_is_recorded_by_class(trireme, steps):
    metrics = steps["evaluate"].data.metrics
    assert all(0 < metrics[f"precision_{digit}"] <= 1 for digit in range(10))
    kept = {file.path for file in trireme.client.list_artifacts(steps["evaluate"].info.run_id)}
    assert "report.html" in kept


def test_the_report_needs_no_network(workspace):
    report = (workspace / "report.html").read_text()
    assert "Confusion matrix" in report
    loaded = re.sub(r"<a href=.*?</a>", "", report)  # what is a link is there to be followed
    assert "http://" not in loaded
    assert "https://" not in loaded


def test_the_exported_files_answer_as_the_model_does(steps):
    assert steps["export"].data.metrics["difference_pt2"] < 1e-4
    assert steps["export"].data.metrics["difference_onnx"] < 1e-3


def test_the_registered_model_answers_with_its_signature(trireme, parent, steps, workspace):
    (version,) = trireme.client.search_model_versions("name = 'classifier'")
    assert trireme.client.get_registered_model("classifier").aliases == {"champion": 1}
    assert version.run_id == parent.info.run_id
    assert version.tags["git.commit"] == parent.data.tags["git.commit"]
    assert version.tags["dataset.fingerprint"] == parent.data.tags["dataset.fingerprint"]
    accuracy = parent.data.metrics["held_out_accuracy"]
    assert float(version.tags["held_out_accuracy"]) == pytest.approx(accuracy, rel=1e-5)
    before = tracking_uri.told()
    mlflow.set_tracking_uri(f"sqlite:///{trireme.home / 'mlflow.db'}")
    model = mlflow.pyfunc.load_model(f"models:/classifier/{version.version}")
    mlflow.set_tracking_uri(before)
    assert model.metadata.signature.inputs.inputs[0].shape == (-1, 1, 8, 8)
    with np.load(workspace / "data" / "test.npz") as held_out:
        answers = model.predict(held_out["x"])["output"].argmax(1)
        assert (answers == held_out["y"]).mean() == pytest.approx(
            parent.data.metrics["held_out_accuracy"]
        )


def test_nothing_half_written_is_left(workspace):
    assert list(workspace.rglob("*.partial")) == []
    assert not (workspace.parent / "tmp").exists()


def test_a_better_model_takes_the_place_of_the_champion(trireme, trireme_type, tmp_path):
    """The champion has never seen white on black; its record is copied, its files stay put."""
    home, data = tmp_path / "home", tmp_path / "digits"
    home.mkdir()
    shutil.copy(trireme.home / "mlflow.db", home)
    shutil.copytree(trireme.run_directory() / "workspace" / "data", data)
    for split in ("train.npz", "test.npz"):
        with np.load(data / split) as digits:
            images, labels = digits["x"], digits["y"]
        np.savez(data / split, x=images.max() - images, y=labels)

    later = trireme_type(home)
    result = later.call(
        *("run", "pytorch-training", "-p", f"dataset_uri={data}"),
        *("-p", 'args=["--epochs", "4"]', "-p", "min_accuracy=0.1", "-p", "workers=0"),
    )
    assert result.returncode == 0, result.stderr
    assert "classifier, version 2, champion" in result.stdout
    assert later.client.get_registered_model("classifier").aliases == {"champion": 2}
    (parent, *_) = later.parents()
    assert parent.data.tags["champion"].startswith("better than the champion: +")
    for run in (parent, later.nested(parent)["train"]):
        assert run.data.params["args.epochs"] == "4"
    before = trireme.parents()[0].info.run_id  # MLflow's copy has it
    compared = later.call("compare", before, later.run_directory().name).stdout
    rows = [line.split() for line in compared.splitlines()]
    assert ["args.epochs", "-", "4"] in rows
    assert ["workers", "-1", "0"] in rows
    assert any(row[:1] == ["held_out_accuracy"] and "<" in row for row in rows)
    report = (later.run_directory() / "workspace" / "report.html").read_text()
    assert "against version 1" in report
    version = later.client.get_model_version("classifier", "2")
    assert version.tags["champion.before"] == "1"
    assert int(version.tags["weights"]) > 1000
    assert later.wait_for_no_processes() == []
