"""components/trainers/tensorflow: what it decides before it trains."""

import argparse
import json
import socket

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ALONE = {"worker": ["a:1"]}
WORKERS = {"worker": ["a:1", "b:1"]}
CHIEF_AND_WORKER = {"chief": ["a:1"], "worker": ["b:1"]}
SERVED = {"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1"]}


@pytest.fixture(scope="module")
def classifier():
    from components.trainers.tensorflow import classifier

    return classifier


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
def test_the_strategy_suits_the_cluster(classifier, name, cluster, chosen):
    assert classifier.choose(name, cluster) == chosen


@pytest.mark.parametrize(
    ("name", "cluster", "said"),
    [
        (None, {"ps": ["a:1"], "worker": ["b:1"]}, "needs a chief.*TF_CONFIG has ps, worker"),
        ("parameter_server", {}, "needs a chief.*TF_CONFIG has none of them"),
        ("parameter_server", CHIEF_AND_WORKER, "TF_CONFIG has chief, worker"),
        ("multi_worker", SERVED, "multi_worker has no use for the ps"),
        ("single", WORKERS, "single: each of the 2 replicas in TF_CONFIG would train alone"),
        ("mirrored", WORKERS, "mirrored: each of the 2 replicas"),
    ],
)
def test_a_strategy_that_the_cluster_cannot_have_is_refused(classifier, name, cluster, said):
    with pytest.raises(SystemExit, match=said):
        classifier.choose(name, cluster)


def test_an_evaluator_is_refused(classifier, monkeypatch):
    config = '{"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}'
    monkeypatch.setenv("TF_CONFIG", config)
    monkeypatch.setattr("sys.argv", ["classifier.py"])
    with pytest.raises(SystemExit, match="no part for an evaluator"):
        classifier.main()


@pytest.mark.parametrize(("samples", "size"), [(100, 32), (96, 32), (5, 32), (1, 1), (33, 32)])
def test_every_sample_comes_once_an_epoch_in_another_order(classifier, samples, size):
    orders = []
    for epoch in range(2):
        counted = []
        numbers = np.arange(samples)
        for images, labels, weights in classifier.batches(numbers, numbers, size, [0, epoch]):
            assert len(images) == len(labels) == len(weights) == size
            assert np.array_equal(images, labels)
            assert weights.sum() == pytest.approx(1)
            counted += labels[weights > 0].tolist()
        assert sorted(counted) == numbers.tolist()
        orders.append(counted)
    assert samples < 5 or orders[0] != orders[1]


def test_what_needs_a_gpu_falls_back_to_the_cpu(classifier, capsys):
    if classifier.tf.config.list_physical_devices("GPU"):
        pytest.skip("this machine has a GPU")
    asked = argparse.Namespace(communication="auto", cross_device_ops="nccl", devices=["GPU:0"])
    strategy = classifier.make_strategy("mirrored", asked)
    assert strategy.num_replicas_in_sync == 1
    assert "CPU" in strategy.extended.worker_devices[0]
    printed = capsys.readouterr().out
    assert "reduction_to_one_device instead of nccl" in printed
    assert "the CPU instead of GPU:0" in printed


def test_metrics_that_no_server_takes_are_kept_in_a_file(classifier, monkeypatch, tmp_path):
    with socket.socket() as bound_but_not_listening:
        bound_but_not_listening.bind(("127.0.0.1", 0))
        port = bound_but_not_listening.getsockname()[1]
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("MLFLOW_RUN_ID", "0123456789abcdef0123456789abcdef")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        metrics = classifier.Metrics(tmp_path / "unsent.json", patience=0)
        metrics.log(1, loss=0.5, accuracy=0.75)
        metrics.close()
    kept = json.loads((tmp_path / "unsent.json").read_text())
    assert [(name, value, step) for name, value, _, step in kept] == [
        ("loss", 0.5, 1),
        ("accuracy", 0.75, 1),
    ]
