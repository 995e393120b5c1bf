"""components/evaluation: regressions and language models, and samples read from files."""

import math
import tracemalloc
from itertools import pairwise

import numpy as np
import onnx
import onnx_models
import pytest
import torch
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from trireme.evaluation import held_out as splits
from trireme.evaluation import report
from trireme.evaluation.bootstrap import interval, resampled
from trireme.evaluation.gate import Judged, Verdict, compare, judge
from trireme.evaluation.held_out import BATCH_BYTES, HeldOut, batches, held_out, predict_in_batches
from trireme.evaluation.kinds import measure
from trireme.evaluation.onnx_file import load_onnx
from trireme.evaluation.options import FIGURES, Gate
from trireme.models.trained import NotLoadable


def evaluated(outputs: np.ndarray, labels: np.ndarray):
    """Evaluates a model that gives these answers."""
    return measure(table(outputs), HeldOut(np.arange(len(labels)), labels), []).evaluation()


def table(outputs: np.ndarray):
    return lambda numbers: outputs[numbers]


@pytest.mark.parametrize("shape", [(300,), (300, 1), (300, 3)])
def test_a_regressions_figures_are_those_of_scikit_learn(shape):
    random = np.random.default_rng(0)
    true = random.normal(size=shape)
    said = true + random.normal(scale=0.1, size=shape)
    found = evaluated(said.astype(np.float32), true)
    assert found.figures == pytest.approx(
        {
            "mean_absolute_error": mean_absolute_error(true, said),
            "rmse": root_mean_squared_error(true, said),
            "largest_error": np.abs(true - said).max(),
            "r2": r2_score(true, said),
        },
        rel=1e-4,
    )
    low, high = found.between
    assert low < found.first[1] < high
    worst = found.worst[0]
    assert np.abs(true - said).reshape(300, -1).mean(1).argmax() == worst.sample
    assert len(found.chart.series["samples"][0]) == min(true.size, 1000)


@pytest.mark.parametrize(
    ("outputs", "labels"),
    [
        (np.zeros((5, 2)), np.zeros(5)),
        (np.zeros((5, 2)), np.zeros((5, 3))),
        (np.full(5, np.nan), np.zeros(5)),
        (np.zeros(5), np.array([0, 1, 0, 1, 0])),
        (np.zeros((5, 1)), np.array([0, 1, 0, 1, 0])),
        (np.zeros(5), np.array([0.0, 1, 0, 1, 0])),
        (np.zeros((5, 1)), np.array([[0.0], [1], [0], [1], [0]])),
        (np.zeros((5, 3)), np.array([0.0, 1, 2, 1, 0])),
        (np.zeros((5, 3)), np.array([0, 1, 2, 3, 0])),
        (np.zeros((5, 4)), np.zeros((5, 4), int)),
        (np.zeros((5, 4, 3)), np.full((5, 4), 3)),
        (np.zeros((5, 4, 3)), np.full((5, 4), -1)),
        (np.full((5, 4, 3), np.nan), np.zeros((5, 4), int)),
    ],
)
def test_answers_that_do_not_fit_are_refused(outputs, labels):
    with pytest.raises(NotLoadable) as caught:
        evaluated(outputs, labels)
    assert "\n" not in str(caught.value)


def test_a_language_models_loss_is_that_of_pytorch():
    random = np.random.default_rng(0)
    logits = random.normal(size=(40, 12, 9)).astype(np.float32)
    labels = random.integers(0, 9, (40, 12))
    labels[7:20, 5:] = -100  # as cross_entropy ignores it
    found = evaluated(logits, labels)
    loss = float(
        torch.nn.functional.cross_entropy(
            torch.tensor(logits).flatten(0, 1), torch.tensor(labels).flatten()
        )
    )
    assert found.figures["loss"] == pytest.approx(loss, rel=1e-5)
    assert found.figures["perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
    assert found.figures["bits_per_token"] == pytest.approx(loss / math.log(2), rel=1e-5)
    asked = labels >= 0
    right = (logits.argmax(-1) == labels)[asked].mean()
    assert found.figures["token_accuracy"] == pytest.approx(right)
    assert -found.scores.mean() == pytest.approx(loss, rel=1e-5)
    low, high = found.between
    assert low < math.exp(loss) < high
    positions, losses = found.chart.series["loss"]
    assert positions == list(range(12)) and len(losses) == 12
    assert str(asked.sum()) in found.headline


@pytest.mark.parametrize("form", ["probabilities", "their logarithms"])
def test_probabilities_are_as_good_as_logits(form):
    random = np.random.default_rng(0)
    logits = random.normal(size=(4, 6, 9)).astype(np.float32)
    labels = random.integers(0, 9, (4, 6))
    logarithms = torch.tensor(logits).log_softmax(-1)
    likely = logarithms.exp() if form == "probabilities" else logarithms
    assert evaluated(likely.numpy(), labels).figures["loss"] == pytest.approx(
        evaluated(logits, labels).figures["loss"], rel=1e-5
    )


def test_that_texts_differ_in_length_makes_no_figure_less_sure():
    labels = np.zeros((50, 30), int)
    for number, row in enumerate(labels):
        row[number % 29 + 1 :] = -1
    found = evaluated(np.zeros((50, 30, 2), np.float32), labels)
    assert found.between == pytest.approx((2, 2))


def test_texts_that_a_model_of_bytes_does_worst_on_are_shown(tmp_path):
    labels = np.stack([np.frombuffer(text, np.uint8) for text in (b"plain", b"<wild")])
    logits = np.zeros((2, 5, 256), np.float32)
    np.put_along_axis(logits[:1], labels[:1, :, None].astype(int), 9, -1)
    found = evaluated(logits, labels.astype(np.int64))
    assert [each.truth for each in found.worst] == ["<wild", "plain"]
    np.savez(tmp_path / "test.npz", x=labels, y=labels)
    page = tmp_path / "report.html"
    report.write(page, Judged(Verdict(True, 0, ""), found, None), tmp_path, tmp_path)
    assert "<b>&lt;wild</b><br>sample 1, 5.55 nats per token" in page.read_text()
    assert 'aria-label="loss by position"' in page.read_text()


@pytest.mark.parametrize("form", ["one-hot", "a column"])
def test_labels_as_keras_keeps_them_are_classes(form):
    outputs = np.random.default_rng(0).normal(size=(30, 4))
    labels = np.random.default_rng(1).integers(0, 4, 30)
    others = np.eye(4)[labels] if form == "one-hot" else labels[:, None]
    assert evaluated(outputs, others).figures == evaluated(outputs, labels).figures


def test_of_many_classes_each_is_not_told_by_itself(tmp_path):
    labels = np.arange(60)
    found = evaluated(np.eye(60), labels)
    assert "recall_7" in found.by_name and "recall_7" not in found.recorded
    np.savez(tmp_path / "test.npz", x=labels, y=labels)
    page = tmp_path / "report.html"
    report.write(page, Judged(Verdict(True, 1, ""), found, None), tmp_path, tmp_path)
    assert "Confusion matrix" not in page.read_text() and "By class" in page.read_text()


def test_labels_that_are_no_numbers_are_refused(tmp_path):
    np.savez(tmp_path / "test.npz", x=np.zeros(3), y=np.array([0.5, np.nan, 1]))
    with pytest.raises(NotLoadable, match="NaN"):
        held_out(tmp_path)


def test_the_figures_of_each_kind_are_those_that_a_gate_may_ask_for():
    number, token = np.linspace(0, 2, 9), np.zeros((9, 4), int)
    figures = []
    for outputs, labels in (
        (np.eye(9), np.arange(9)),
        (number, number),
        (np.zeros((9, 4, 3)), token),
    ):
        found = measure(table(outputs), HeldOut(np.arange(9), labels), [])
        figures += found.evaluation().figures
    assert tuple(figures) == FIGURES


def test_the_gate_compares_by_what_a_kind_of_model_is_measured_by():
    random = np.random.default_rng(0)
    true = random.normal(size=400)
    champion = evaluated(true + random.normal(scale=0.5, size=400), true)
    model = evaluated(true + random.normal(scale=0.2, size=400), true)
    gate = Gate(better_by=0.1)
    comparison = compare(model, "3", champion.scores, 0, gate)
    better, reason = judge(comparison, gate)
    assert better
    assert (
        reason.startswith("better than the champion: -0.2") and "of mean absolute error" in reason
    )
    low, high = comparison.between
    assert low < comparison.gain < high
    comparison = compare(champion, "3", model.scores, 0, gate)
    better, reason = judge(comparison, gate)
    assert not better
    assert reason.startswith("worse than the champion: +0.2")


@pytest.mark.parametrize("values", ["few", "many"])
def test_means_are_resampled_as_scipy_does(values):
    from scipy.stats import bootstrap

    random = np.random.default_rng(0)
    sample = random.integers(0, 2, 900) if values == "few" else random.lognormal(size=900)
    low, high = interval(resampled(sample))
    found = bootstrap((sample,), np.mean, method="percentile", random_state=0).confidence_interval
    width = found.high - found.low
    assert low == pytest.approx(found.low, abs=0.05 * width)
    assert high == pytest.approx(found.high, abs=0.05 * width)


def test_errors_that_are_far_out_make_the_mean_unsure():
    sample = np.random.default_rng(0).lognormal(sigma=3, size=100_000)
    assert resampled(sample).std() == pytest.approx(sample.std() / len(sample) ** 0.5, rel=0.05)


def test_samples_in_files_are_read_batch_by_batch(tmp_path):
    (tmp_path / "test").mkdir()
    inputs = np.ones((4096, 4096), np.float32)
    np.save(tmp_path / "test" / "x.npy", inputs)
    np.save(tmp_path / "test" / "y.npy", np.zeros(4096, int))
    del inputs
    split = held_out(tmp_path)
    tracemalloc.start()
    try:
        outputs = predict_in_batches(lambda batch: batch[:, :2] * 2, split.inputs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outputs.shape == (4096, 2) and (outputs == 2).all()
    assert peak < 3 * splits.BATCH * 4096 * 4 < 4096 * 4096 * 4


def test_large_answers_make_small_batches():
    inputs = np.zeros((1000, 4))
    logits = np.broadcast_to(np.float32(0), (2, 512, 32_000))
    parts = list(batches(inputs, logits))
    assert [parts[0].start, parts[-1].stop] == [0, 1000]
    assert all(before.stop == after.start for before, after in pairwise(parts))
    assert max(part.stop - part.start for part in parts) * logits[0].nbytes <= BATCH_BYTES


@pytest.mark.parametrize("samples", [1, 2, 256, 257, 513, 1000])
def test_no_batch_is_of_one_sample_where_there_are_more(samples):
    sizes = [part.stop - part.start for part in batches(np.zeros((samples, 3)), np.zeros((2, 9)))]
    assert sum(sizes) == samples
    assert min(sizes) > 1 or samples == 1


def test_an_onnx_file_takes_floats_of_any_precision_and_no_other_numbers(tmp_path):
    onnx.save(onnx_models.of_one("Relu"), tmp_path / "model.onnx")
    answer, inputs = load_onnx(tmp_path / "model.onnx"), np.array([[-1.0, 2.0]])
    for number in (np.float64, np.float32, np.float16):
        assert answer(inputs.astype(number)).tolist() == [[0, 2]]
    with pytest.raises(NotLoadable, match="does not take these samples"):
        predict_in_batches(answer, inputs.astype(int))
