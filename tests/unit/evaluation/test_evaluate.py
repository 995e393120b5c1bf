"""components/evaluation: the figures, the gate, and what it shows."""

import json
import re
import sys
import tracemalloc

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    f1_score,
    precision_score,
    recall_score,
    roc_auc_score,
    roc_curve,
)
from torch import nn

from trireme.errors import InputError
from trireme.evaluation import answers, plots, report, roc
from trireme.evaluation.classification import Classification
from trireme.evaluation.evaluate import evaluate, evaluate_and_report
from trireme.evaluation.gate import Judged, Verdict
from trireme.evaluation.held_out import BATCH
from trireme.evaluation.options import check
from trireme.evaluation.source import Source
from trireme.tracking import journal

NAMES = ["ant", "bee", "cat", "dog", "<b>eel</b>"]

NETWORKS = """
import torch
from torch import nn

class Table(nn.Module):
    '''Answers sample number n with row n of a table.'''
    def __init__(self, rows, columns):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(rows, columns))
    def forward(self, x):
        return self.table[x[:, 0].long()]

class Pair(Table):
    def forward(self, x):
        return super().forward(x), x

class Flat(Table):
    def forward(self, x):
        return super().forward(x)[:, 0]

class One(Table):
    def forward(self, x):
        return super().forward(x)[:1]

class Picky(Table):
    def forward(self, x):
        raise ValueError("these are\\nnot my inputs")
"""


@pytest.fixture
def code(tmp_path):
    directory = tmp_path / "code"
    directory.mkdir()
    (directory / "table_networks.py").write_text(NETWORKS)
    yield directory
    sys.modules.pop("table_networks", None)


@pytest.fixture
def data(tmp_path):
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "dataset.json").write_text(json.dumps({"classes": NAMES}))
    return directory


@pytest.fixture
def judge(tmp_path, code, data):
    """Evaluates a model that gives these answers, on samples with these labels."""

    def run(logits: np.ndarray, labels: np.ndarray, threshold: float, network: str = "Table"):
        save_samples(data, labels)
        save_answers(tmp_path / "model", logits, network)
        return evaluate(Source(tmp_path / "model", code, "train.py"), data, threshold)[:2]

    return run


def save_samples(data, labels):
    numbers = np.arange(len(labels), dtype=np.float32).reshape(-1, 1)
    np.savez(data / "test.npz", x=numbers, y=labels)


def save_answers(model, logits, network="Table"):
    model.mkdir(exist_ok=True)
    saved = {
        "factory": f"table_networks:{network}",
        "arguments": {"rows": logits.shape[0], "columns": logits.shape[1]},
        "state_dict": {"table": torch.from_numpy(logits.astype(np.float32))},
    }
    torch.save(saved, model / "model.pt")


def certain(predicted: np.ndarray, classes: int) -> np.ndarray:
    return np.eye(classes)[predicted]


@pytest.mark.parametrize("samples", [1, 7, BATCH, 3 * BATCH + 5])
def test_the_figures_are_those_of_scikit_learn(judge, samples):
    random = np.random.default_rng(samples)
    logits = random.normal(size=(samples, 5))
    labels = random.integers(0, 5, samples)
    _, found = judge(logits, labels, 0.5)
    predicted, classes = logits.astype(np.float32).argmax(1), list(range(5))
    options = {"labels": classes, "average": None, "zero_division": 0.0}
    assert found.figures["accuracy"] == pytest.approx(accuracy_score(labels, predicted))
    assert found.classes.precision == pytest.approx(precision_score(labels, predicted, **options))
    assert found.classes.recall == pytest.approx(recall_score(labels, predicted, **options))
    assert found.classes.confusion == confusion_matrix(labels, predicted, labels=classes).tolist()
    assert found.classes.support == [int((labels == index).sum()) for index in classes]
    assert found.classes.names == NAMES
    assert found.figures["macro_f1"] == pytest.approx(
        f1_score(labels, predicted, average="macro", zero_division=0.0)
    )
    assert found.figures["log_loss"] == pytest.approx(
        float(torch.nn.functional.cross_entropy(torch.tensor(logits), torch.tensor(labels))),
        rel=1e-5,
    )
    low, high = found.between
    assert low <= found.figures["accuracy"] <= high


def test_rows_of_the_confusion_matrix_are_the_true_classes(judge):
    _, found = judge(certain(np.array([1, 1, 2]), 3), np.array([0, 0, 2]), 0.0)
    assert found.classes.confusion == [[0, 2, 0], [0, 0, 0], [0, 0, 1]]
    assert found.classes.names == ["0", "1", "2"]  # five names are of no use for three classes


def test_probabilities_are_taken_as_they_are_and_logits_are_turned_into_them(judge):
    random = np.random.default_rng(0)
    logits = random.normal(size=(200, 5))
    labels = random.integers(0, 5, 200)
    likely = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    _, of_logits = judge(logits, labels, 0.5)
    _, of_probabilities = judge(likely, labels, 0.5)
    assert of_logits.figures["log_loss"] == pytest.approx(
        of_probabilities.figures["log_loss"], rel=1e-4
    )
    expected = roc_auc_score(labels, likely, multi_class="ovr")
    assert of_logits.figures["roc_auc"] == pytest.approx(expected, abs=1e-4)
    false, true, thresholds = of_logits.classes.roc
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert len(false) == len(true) == len(thresholds) <= 100
    json.dumps(of_logits.classes.roc, allow_nan=False)


def classified(outputs: np.ndarray, labels: np.ndarray):
    """Evaluates a classifier's answers, taken in as two batches."""
    measure = Classification([])
    for part in (slice(0, 2), slice(2, None)):
        measure.add(outputs[part], labels[part])
    return measure.evaluation()


@pytest.mark.parametrize("samples", [3, 12, 3000])
@pytest.mark.parametrize("digits", [1, 9], ids=["ties", "no ties"])
def test_the_roc_curve_is_that_of_scikit_learn(samples, digits, monkeypatch):
    monkeypatch.setattr(answers, "PART", 1)  # so that classes are looked at one by one
    random = np.random.default_rng(samples)
    labels = np.arange(samples) % 3
    likely = random.dirichlet(np.ones(3), samples)
    likely[:, :2] = likely[:, :2].round(digits)
    likely[:, 2] = np.maximum(1 - likely[:, :2].sum(1), 0)
    found = classified(likely, labels)
    expected = [roc_auc_score(labels == index, likely[:, index]) for index in range(3)]
    assert found.figures["roc_auc"] == pytest.approx(np.mean(expected), rel=1e-12)
    truth, said = (np.arange(3) == labels[:, None]).ravel(), likely.ravel()
    false, true, limits = roc_curve(truth, said, drop_intermediate=False)
    all_points = {(f, t): limit for f, t, limit in zip(false, true, limits, strict=True)}
    points = list(zip(*found.classes.roc, strict=True))
    assert {all_points[f, t] for f, t, _ in points[1:]} == {limit for *_, limit in points[1:]}
    assert len(points) <= roc.POINTS
    if samples < 50:  # all corners are there
        false, true, _ = roc_curve(truth, said)
        assert set(zip(false, true, strict=True)) <= {(f, t) for f, t, _ in points} | {
            (f, t) for f, t in all_points if not _is_corner(all_points, f, t)
        }


def _is_corner(points, false, true):
    """Whether a curve turns at a point, rather than only having fewer samples there."""
    places = list(points)
    at = places.index((false, true))
    if at in (0, len(places) - 1):
        return True
    (a, b), (c, d) = places[at - 1], places[at + 1]
    return not np.isclose((false - a) * (d - true), (c - false) * (true - b))


def test_evaluation_needs_little_more_memory_than_the_answers():
    random = np.random.default_rng(0)
    measure, size = Classification([]), 0
    for _ in range(100):
        outputs = random.standard_normal((1000, 50), np.float32)
        measure.add(outputs, random.integers(0, 50, len(outputs)))
        size += outputs.nbytes
    tracemalloc.start()
    try:
        measure.evaluation()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size + 3 * answers.PART


@pytest.mark.parametrize("samples", [200, 20_000])
def test_the_range_of_the_accuracy_holds_the_true_one_as_often_as_it_says(samples):
    random = np.random.default_rng(0)
    held = 0
    for _ in range(100):
        right = random.random(samples) < 0.8
        outputs = np.stack([~right, right], axis=1).astype(float)
        measure = Classification([])
        measure.add(outputs, np.ones(samples, int))
        low, high = measure.evaluation().between
        held += low <= 0.8 <= high
    assert 88 <= held <= 100


def test_a_model_of_one_class_is_evaluated_too(judge, tmp_path, data):
    verdict, found = judge(np.ones((3, 1)), np.zeros(3, dtype=int), 0.5)
    assert verdict.passed and found.figures["log_loss"] == 0 and "roc_auc" not in found.figures
    json.dumps(found.classes.roc, allow_nan=False)
    report.write(tmp_path / "report.html", Judged(verdict, found, None), tmp_path, data)


def test_answers_that_are_no_numbers_keep_the_gate_shut(judge):
    logits = np.eye(3)
    logits[1, 1] = float("nan")
    assert "NaN" in must_be_shut(judge(logits, np.arange(3), 0.0))


def test_a_class_that_the_model_does_not_know_counts_as_wrong(judge):
    _, found = judge(certain(np.array([0, 1]), 2), np.array([0, 4]), 0.0)
    assert found.figures["accuracy"] == 0.5
    assert found.classes.names == NAMES
    assert found.classes.recall[4] == 0.0


@pytest.mark.parametrize(
    ("right", "threshold", "passed"),
    [(9, 0.9, True), (8, 0.9, False), (10, 1.0, True), (9, 1.0, False), (0, 0.0, True)],
)
def test_the_gate_opens_at_the_threshold(judge, right, threshold, passed):
    predicted = np.zeros(10, dtype=int)
    labels = np.where(np.arange(10) < right, 0, 1)
    verdict, found = judge(certain(predicted, 2), labels, threshold)
    assert verdict.passed is passed
    assert verdict.score == found.figures["accuracy"] == right / 10
    assert f"{right / 10:.4f}" in verdict.reason
    assert ("reaches" if passed else "is below") in verdict.reason


@pytest.mark.parametrize("threshold", [-0.1, 1.1, 90.0, float("nan"), float("inf")])
def test_a_threshold_that_is_no_share_is_refused(threshold):
    with pytest.raises(InputError, match=r"min_accuracy .*: must be between 0 and 1"):
        check(threshold, {}, {})


def must_be_shut(outcome) -> str:
    verdict, found = outcome
    assert found is None
    assert verdict.passed is False
    assert verdict.score == 0.0
    assert verdict.reason.startswith("not evaluated: ")
    assert "\n" not in verdict.reason
    what_to_do = verdict.reason.rpartition("; ")[2]
    ways = r"(mend that, |have it save .*, )?(or )?give |have it save |train it "
    assert re.match(ways, what_to_do)
    return verdict.reason


@pytest.mark.parametrize("network", ["Pair", "Flat", "One", "Picky"])
def test_a_model_that_answers_otherwise_keeps_the_gate_shut(judge, network):
    # The threshold is one that everything would pass.
    must_be_shut(judge(np.eye(5)[:, :3], np.zeros(5, dtype=int), 0.0, network))


def test_a_model_that_cannot_be_loaded_keeps_the_gate_shut(tmp_path, data, code):
    save_samples(data, np.arange(3))
    (tmp_path / "model").mkdir()
    outcome = evaluate(Source(tmp_path / "model", code, "train.py"), data, 0.0)[:2]
    assert "left nothing in MODEL_DIR" in must_be_shut(outcome)


def test_bare_weights_without_a_factory_keep_the_gate_shut(tmp_path, data, code):
    save_samples(data, np.arange(3))
    (tmp_path / "model").mkdir()
    torch.save(nn.Linear(1, 3).state_dict(), tmp_path / "model" / "model.pt")
    outcome = evaluate(Source(tmp_path / "model", code, "train.py"), data, 0.0)[:2]
    assert "give model_factory=module:callable" in must_be_shut(outcome)


def test_a_dataset_without_held_out_samples_keeps_the_gate_shut(tmp_path, data, code):
    save_answers(tmp_path / "model", np.eye(3))
    outcome = evaluate(Source(tmp_path / "model", code, "train.py"), data, 0.0)[:2]
    assert "the dataset has no test split; give -p dataset_options" in must_be_shut(outcome)


@pytest.mark.parametrize(
    "content", [b"", b"text", b"PK\x03\x04 cut off"], ids=["empty", "text", "cut-off"]
)
def test_a_broken_file_of_samples_keeps_the_gate_shut(tmp_path, data, code, content):
    save_answers(tmp_path / "model", np.eye(3))
    (data / "test.npz").write_bytes(content)
    must_be_shut(evaluate(Source(tmp_path / "model", code, "train.py"), data, 0.0)[:2])


@pytest.mark.parametrize(
    "arrays",
    [
        {"images": np.zeros((3, 1), np.float32), "labels": np.arange(3)},
        {"x": np.zeros((3, 1), np.float32), "y": np.array([{}, {}, {}])},
        {"x": np.zeros((0, 1), np.float32), "y": np.zeros(0, int)},
        {"x": np.zeros((3, 1), np.float32), "y": np.arange(2)},
        {"x": np.zeros((3, 1), np.float32), "y": np.zeros((3, 2, 2))},
        {"x": np.zeros((3, 1), np.float32), "y": np.array(["ant", "bee", "cat"])},
        {"x": np.zeros((3, 1), np.float32), "y": np.array([0.5, 1.5, 2.5])},
        {"x": np.zeros((3, 1), np.float32), "y": np.array([-1, 0, 1])},
    ],
    ids=["names", "objects", "none", "lengths", "matrices", "text", "fractions", "negative"],
)
def test_samples_in_another_form_keep_the_gate_shut(tmp_path, data, code, arrays):
    save_answers(tmp_path / "model", np.eye(3))
    np.savez(data / "test.npz", **arrays)
    must_be_shut(evaluate(Source(tmp_path / "model", code, "train.py"), data, 0.0)[:2])


@pytest.mark.parametrize("content", ["", "no json", "[]", "null", '{"classes": 7}', "{}"])
def test_a_description_of_another_form_leaves_classes_their_numbers(judge, data, content):
    (data / "dataset.json").write_text(content)
    verdict, found = judge(np.eye(3), np.arange(3), 1.0)
    assert verdict.passed
    assert found.classes.names == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"classes": ["a", "b", "a"]}', "names two classes 'a'"),
        ('{"classes": ["a", "b"], "classes": ["c", "d"]}', ": 'classes' is given twice"),
    ],
)
def test_classes_of_which_it_is_not_clear_what_is_meant_keep_the_gate_shut(
    judge, data, content, said
):
    (data / "dataset.json").write_text(content)
    found = must_be_shut(judge(np.eye(3), np.arange(3), 0.0))
    assert found.replace("json ", "json").startswith(f"not evaluated: dataset.json{said}; mend")


def test_the_report_shows_the_figures_and_escapes_what_it_is_given(judge, tmp_path, data):
    verdict, found = judge(np.eye(5), np.array([0, 1, 2, 3, 3]), 0.5)
    page = tmp_path / "report.html"
    with journal.opened(tmp_path, "checkout"):
        journal.log_tags({"git.commit": "12ab", "git.url": "<script>alert(1)</script>"})
    report.write(page, Judged(verdict, found, None), tmp_path, data)
    text = page.read_text()
    assert "80.00 % of 5 held-out samples right" in text
    assert verdict.reason in text
    assert "<script>" not in text and "&lt;script&gt;alert(1)&lt;/script&gt; at 12ab" in text
    assert "<b>eel</b>" not in text and "&lt;b&gt;eel&lt;/b&gt;" in text
    assert "http://" not in text and "https://" not in text
    assert 'aria-label="ROC by false positive rate"' in text
    assert "<b>dog</b> taken for <b>&lt;b&gt;eel&lt;/b&gt;</b>" in text


def test_the_report_says_what_was_trained_where_and_how_it_is_made_again(
    judge, tmp_path, data, monkeypatch, untracked
):
    with journal.opened(tmp_path, "dataset"):
        journal.log_tags({"dataset.uri": "s3://bucket/x", "dataset.fingerprint": "sha256:34cd"})
        journal.log_metrics({"cost": 0.5})
    with journal.opened(tmp_path, "train"):
        journal.log_params({"worker_replicas": 4, "world_size": 4})
        amounts = {"cpu": 2.0, "gib": 1234.5, "gpu": 0.0}
        hours = {f"requested_{name}_hours": amount for name, amount in amounts.items()}
        journal.log_metrics({"replica_seconds": 1234.0, "cost": 3.5} | hours)
        journal.log_tags({"currency": "EUR"})
        rates = [(1, 100.0, 0), (2, 300.0, 0)]
        journal.log_points({"loss": [(1, 0.5, 0), (2, 0.25, 0)], "samples_per_second": rates})
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example.org")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "7")
    monkeypatch.setenv("MLFLOW_RUN_ID", "a1b2")
    verdict, found = judge(np.eye(3), np.arange(3), 0.5)
    page = tmp_path / "report.html"
    report.write(page, Judged(verdict, found, None), tmp_path, data)
    report.add_exported(page, [report.ExportedFile("model.onnx", 2048, 1.5e-6)], 3, "x, version 2")
    text = page.read_text()
    assert "<dd>s3://bucket/x, sha256:34cd</dd>" in text
    assert "<dd>4 worker, 1,234 replica-seconds</dd>" in text
    assert (
        "<dd>2 CPU-hours, 1,234 GiB-hours of memory, 0 GPU-hours, requested by the replicas</dd>"
    ) in text
    assert "<dd>4.00 EUR until the evaluation, 3.50 EUR of it for training</dd>" in text
    assert "<dd>200 samples/s, 50 in each process</dd>" in text
    assert 'aria-label="loss by step"' in text  # and no throughput beside it
    assert 'href="https://mlflow.example.org/#/experiments/7/runs/a1b2?' in text
    assert "secret" not in text
    assert "<code>trireme reproduce a1b2</code>" in text
    assert "2.0 KiB</td><td>1.5e-06" in text and "x, version 2" in text


def test_the_report_shows_how_training_went_and_the_worst_mistakes(judge, tmp_path, data):
    with journal.opened(tmp_path, "train"):
        journal.log_points({"loss": [(1, 0.5, 0), (2, 0.25, 0)], "accuracy": [(2, 0.5, 0)]})
    logits = np.array([[4, 0, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 9, 0.0]])
    verdict, found = judge(logits, np.array([0, 1, 2]), 0.0)
    assert [mistake[:3] for mistake in found.worst] == [(2, "cat", "dog"), (1, "bee", "dog")]
    assert found.worst[0].note == "100 % sure"
    page = tmp_path / "report.html"
    report.write(page, Judged(verdict, found, None), tmp_path, data)
    text = page.read_text()
    assert 'aria-label="loss by step"' in text
    assert text.index("<b>cat</b> taken for <b>dog</b>") < text.index("<b>bee</b> taken for")


@pytest.mark.parametrize(
    ("shape", "is_image"),
    [
        ((8, 8), 1),
        ((1, 8, 8), 1),
        ((3, 8, 9), 1),
        ((8, 8, 3), 1),
        ((4,), 0),
        ((2, 8, 8), 0),
        ((300, 300), 0),
    ],
)
def test_samples_that_are_images_are_shown(shape, is_image):
    sample = np.random.default_rng(0).normal(size=shape)
    assert plots.picture(sample).startswith("data:image/png;base64,") == bool(is_image)


def test_the_report_of_a_model_that_was_not_evaluated_says_why(tmp_path):
    page = tmp_path / "report.html"
    verdict = Verdict(False, 0.0, "not evaluated: no test.npz")
    report.write(page, Judged(verdict, None, None), tmp_path, tmp_path)
    assert "not evaluated: no test.npz" in page.read_text()


@pytest.mark.slow
def test_the_step_shows_figures_in_kubeflow_and_keeps_its_report(tmp_path, code, data, untracked):
    from kfp import dsl

    save_samples(data, np.array([0, 1, 2, 3, 3]))
    save_answers(tmp_path / "model", np.eye(5))
    data.rename(tmp_path / "data.held-out")  # as of a dataset that was split
    data.mkdir()
    (tmp_path / "workspace").mkdir()
    metrics = dsl.Metrics(uri=str(tmp_path / "metrics"))
    confusion = dsl.ClassificationMetrics(uri=str(tmp_path / "confusion"))
    page = dsl.HTML(uri=str(tmp_path / "outputs" / "report"))
    verdict = evaluate_and_report(
        model=str(tmp_path / "model"),
        data=str(data),
        code=str(code),
        entrypoint="train.py",
        model_factory="",
        min_accuracy=0.9,
        gate={},
        evaluation={},
        model_name="animals",
        workspace=str(tmp_path / "workspace"),
        metrics=metrics,
        confusion=confusion,
        report=page,
    )
    assert verdict[:3] == (False, 0.8, "held-out accuracy 0.8000 is below min_accuracy 0.9")
    assert (verdict.promote, verdict.champion) == (False, "")
    assert metrics.metadata["accuracy"] == 0.8
    assert metrics.metadata["recall_dog"] == 0.5
    assert [row["row"] for row in confusion.metadata["confusionMatrix"]["rows"]] == [
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 1],
        [0, 0, 0, 0, 0],
    ]
    kept = (tmp_path / "workspace" / "report.html").read_text()
    assert (tmp_path / "outputs" / "report").read_text() == kept


def test_curves_of_the_training_are_by_what_their_steps_count(tmp_path):
    with journal.opened(tmp_path, "train"):
        loss = [(100, 3.0, 0, "step"), (200, 2.0, 0, "step")]
        journal.log_points({"loss": loss, "val_loss": [(n, n, 0, "epoch") for n in (1, 2)]})
    pictures = report._charts(None, tmp_path)
    assert [re.findall("(?:val_)?loss by \\w+", picture) for _, picture in pictures] == [
        ["loss by step"],
        ["val_loss by epoch"],
    ]
