"""trainers: what it decides before it trains, and how it goes on."""

import argparse
import json
import logging
import os
import re
import signal
from pathlib import Path

import mlflow
import numpy as np
import pytest
import tracking_uri
from mlflow import MlflowClient

pytestmark = pytest.mark.slow

ALONE = {"worker": ["a:1"]}
WORKERS = {"worker": ["a:1", "b:1"]}
CHIEF_AND_WORKER = {"chief": ["a:1"], "worker": ["b:1"]}
SERVED = {"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1"]}


@pytest.fixture(scope="module")
def classifier():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_NUM_INTRAOP_THREADS", "1")  # several could add up in any order
        from trireme.trainers import tensorflow_classifier as classifier

        yield classifier


@pytest.fixture(scope="module")
def distribution(classifier):
    return classifier.distribution


@pytest.mark.parametrize(
    ("name", "cluster", "chosen"),
    [
        (None, {}, "mirrored"),
        (None, ALONE, "mirrored"),
        (None, WORKERS, "multi_worker"),
        (None, CHIEF_AND_WORKER, "multi_worker"),
        (None, SERVED, "parameter_server"),
        ("multi_worker", ALONE, "mirrored"),
        ("multi_worker", {}, "mirrored"),
        ("single", ALONE, "single"),
    ],
)
def test_the_strategy_suits_the_cluster(distribution, name, cluster, chosen):
    assert distribution.choose(name, cluster) == chosen


@pytest.mark.parametrize(
    ("name", "cluster", "said"),
    [
        (None, {"ps": ["a:1"], "worker": ["b:1"]}, "needs a chief.*TF_CONFIG has ps, worker"),
        ("parameter_server", {}, "needs a chief.*TF_CONFIG has none of them"),
        ("parameter_server", CHIEF_AND_WORKER, "TF_CONFIG has chief, worker"),
        ("multi_worker", SERVED, "multi_worker does not use the ps"),
        ("single", WORKERS, "single: each of the 2 replicas in TF_CONFIG would train alone"),
        ("mirrored", WORKERS, "mirrored: each of the 2 replicas"),
    ],
)
def test_a_strategy_that_the_cluster_cannot_have_is_refused(distribution, name, cluster, said):
    with pytest.raises(distribution.InvalidRequest, match=said):
        distribution.choose(name, cluster)


@pytest.mark.parametrize(
    ("config", "leads"),
    [
        ({}, True),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": 0}}, True),
        ({"cluster": WORKERS, "task": {"type": "worker", "index": 1}}, False),
        ({"cluster": CHIEF_AND_WORKER, "task": {"type": "worker", "index": 0}}, False),
        ({"cluster": CHIEF_AND_WORKER, "task": {"type": "chief", "index": 0}}, True),
    ],
)
def test_one_replica_speaks_for_all(distribution, monkeypatch, config, leads):
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert distribution.Place.of_environment().is_leader == leads


def test_an_evaluator_is_refused(classifier, monkeypatch, capsys):
    config = '{"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}'
    monkeypatch.setenv("TF_CONFIG", config)
    monkeypatch.setattr("sys.argv", ["classifier.py"])
    with pytest.raises(SystemExit) as ended:
        classifier.main()
    assert ended.value.code == 2
    assert capsys.readouterr().out == "an evaluator has nothing to do; leave that role out\n"


@pytest.mark.parametrize(("samples", "size"), [(100, 32), (96, 32), (5, 32), (1, 1), (33, 32)])
def test_every_sample_comes_once_an_epoch_in_another_order(distribution, samples, size):
    orders = []
    for epoch in range(2):
        counted = []
        numbers = np.arange(samples)
        for images, labels, weights in distribution.batches(numbers, numbers, size, [0, epoch]):
            assert len(images) == len(labels) == len(weights) == size
            assert np.array_equal(images, labels)
            assert weights.sum() == pytest.approx(1)
            counted += labels[weights > 0].tolist()
        assert sorted(counted) == numbers.tolist()
        orders.append(counted)
    assert samples < 5 or orders[0] != orders[1]


def test_what_needs_a_gpu_falls_back_to_the_cpu(distribution, capsys):
    if distribution.tf.config.list_physical_devices("GPU"):
        pytest.skip("this machine has a GPU")
    asked = argparse.Namespace(communication="auto", cross_device_ops="nccl", devices=["GPU:0"])
    strategy = distribution.make_strategy("mirrored", asked)
    assert strategy.num_replicas_in_sync == 1
    assert "CPU" in strategy.extended.worker_devices[0]
    printed = capsys.readouterr().out
    assert "reduction_to_one_device instead of nccl" in printed
    assert "the CPU instead of GPU:0" in printed


@pytest.mark.parametrize("name", ["cpu", "/CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0"])
def test_a_device_may_be_called_as_tensorflow_does(distribution, name):
    asked = argparse.Namespace(communication="auto", cross_device_ops=None, devices=[name])
    strategy = distribution.make_strategy("mirrored", asked)
    assert strategy.extended.worker_devices[0].endswith("CPU:0")


@pytest.fixture
def train(classifier, monkeypatch, tmp_path, capsys):
    """Trains in this process, in three batches an epoch; returns status, losses and parameters."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    draw = np.random.default_rng(0)
    data = {"x": draw.random((10, 1, 4, 4), np.float32), "y": draw.integers(0, 3, 10)}
    np.savez(tmp_path / "train.npz", **data)
    handler = signal.getsignal(signal.SIGTERM)

    def train(name, *arguments):
        monkeypatch.setenv("DATA_DIR", str(tmp_path))
        monkeypatch.setenv("CHECKPOINT_DIR", str(tmp_path / name / "checkpoints"))
        monkeypatch.setenv("MODEL_DIR", str(tmp_path / name))
        size = ("--batch-size", "4", "--width", "2", "--epochs", "4", "--strategy", "single")
        monkeypatch.setattr("sys.argv", ["classifier.py", *size, *arguments])
        try:
            classifier.main()
            status = 0
        except SystemExit as ended:
            status = ended.code
        said = capsys.readouterr().out
        return status, dict(re.findall(r"epoch (\d)/4 loss (\S+)", said)), said

    yield train
    signal.signal(signal.SIGTERM, handler)


def parameters(classifier, model: Path):
    return [value.numpy() for value in classifier.tf.saved_model.load(model / "model").variables]


def test_training_stops_in_an_epoch_and_goes_on_with_the_samples_that_are_left(
    classifier, train, monkeypatch, tmp_path, mlflow_store
):
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    (tmp_path / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    client = MlflowClient(store)
    run = client.create_run(client.create_experiment("training")).info.run_id
    monkeypatch.chdir(tmp_path)  # MLflow makes its default store where it is
    before = tracking_uri.told()
    mlflow.set_tracking_uri(store)  # a program of its own would take it from the environment
    with monkeypatch.context() as tracked:
        tracked.setenv("MLFLOW_RUN_ID", run)
        status, whole, _ = train("whole")
    mlflow.set_tracking_uri(before)
    assert status == 0
    assert list(whole) == ["1", "2", "3", "4"]
    logged = client.get_metric_history(run, "loss")
    assert [metric.step for metric in logged] == [1, 2, 3, 4]
    printed = list(map(float, whole.values()))
    assert [metric.value for metric in logged] == pytest.approx(printed, rel=1e-6)
    assert client.get_metric_history(run, "samples_per_second")

    unspoilt = classifier.distribution.batches

    def reclaimed_in_the_second_epoch(images, labels, size, seed, seen):
        for number, batch in enumerate(unspoilt(images, labels, size, seed, seen)):
            if seed[1] == 1 and number == 1:
                os.kill(os.getpid(), signal.SIGTERM)
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(classifier.distribution, "batches", reclaimed_in_the_second_epoch)
        status, begun, said = train("stopped")
    assert status == 128 + signal.SIGTERM
    assert list(begun) == ["1"]
    assert said.endswith("training can resume from the checkpoint\n")

    status, rest, said = train("stopped")
    assert status == 0
    assert "resuming after epoch 1 and 8 samples" in said
    assert begun | rest == whole
    both = (parameters(classifier, tmp_path / name) for name in ("whole", "stopped"))
    assert all(map(np.array_equal, *both))


def test_what_cannot_be_trained_on_or_with_is_a_sentence(train, tmp_path, monkeypatch):
    status, _, said = train("refused", "--devices", "CPU:7", "--strategy", "mirrored")
    assert (status, said) == (2, "there is no device CPU:7; there are CPU:0\n")
    monkeypatch.setenv("WARM_START_DIR", str(tmp_path))
    status, _, said = train("refused")
    assert status == 2
    assert said.startswith(f"training cannot start from {tmp_path / 'model'}: ")
    np.savez(tmp_path / "train.npz", x=np.zeros((5, 8, 8), np.float32), y=np.zeros(5, int))
    status, _, said = train("refused")
    assert status == 2
    assert said.endswith("they are float32 (5, 8, 8) and int64 (5,)\n")


def test_what_is_said_of_a_lost_worker_is_without_its_batch(distribution, caplog):
    logger = logging.getLogger("of-the-test")
    logger.addFilter(distribution.without_batch)
    logger.error("Worker %s failed with %r", "/task:1", "no answer. Received args: (array([1]))")
    logger.error("Worker %s failed", "/task:2")
    assert [record.getMessage() for record in caplog.records] == [
        "Worker /task:1 failed with 'no answer.",
        "Worker /task:2 failed",
    ]
