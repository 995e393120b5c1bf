"""trireme/evaluation/gate.py: what it takes to become the champion."""

import re
from math import comb

import numpy as np
import pytest
from scipy.stats import bootstrap

from trireme.errors import InputError
from trireme.evaluation.bootstrap import paired_interval, resampled
from trireme.evaluation.classification import SCORE
from trireme.evaluation.figures import Classes, Evaluation
from trireme.evaluation.gate import BETTER, check_thresholds, compare, judge
from trireme.evaluation.options import Gate, check

CLASSES = Classes(["ant", "bee"], [], [], [], [], ([], [], []))


def against(right, champion_right, gate=BETTER, labels=None, weights_saved=0):
    """Compares two models and judges; returns the comparison, the verdict and the reason."""
    right, champion_right = np.array(right, bool), np.array(champion_right, bool)
    labels = np.zeros(len(right), int) if labels is None else np.array(labels)
    model = Evaluation("", {}, None, SCORE, right.astype(float), labels, CLASSES)
    comparison = compare(model, "3", champion_right.astype(float), weights_saved, gate)
    return comparison, *judge(comparison, gate)


def samples(first, second, both, neither):
    """Returns who is right on which sample."""
    counts = [first, second, both, neither]
    return np.repeat([1, 0, 1, 0], counts), np.repeat([0, 1, 1, 0], counts)


def test_without_a_champion_the_first_model_becomes_it():
    said = "there is no champion to compare it with"
    assert judge(None, BETTER) == (True, said)


def test_the_same_model_again_does_not_become_the_champion():
    comparison, better, reason = against(*samples(0, 0, 350, 10))
    assert (comparison.gain, *comparison.between) == (0, 0, 0)
    assert not better and reason.startswith("as good as the champion: +0.00 points against")


def test_a_gain_that_may_be_luck_is_not_enough_and_what_would_tell_is_said():
    comparison, better, reason = against(*samples(6, 4, 340, 10))
    assert comparison.gain > 0 and comparison.between[0] < 0
    assert not better and "perhaps better than the champion, not surely; about " in reason
    needed = int(
        re.search(r"about ([\d,]+) held-out samples would tell", reason)[1].replace(",", "")
    )
    assert 360 < needed < 360 * 20
    more = needed / 360
    both = [round(count * more) for count in (6, 4, 340, 10)]
    assert against(*samples(*both))[0].between[0] == pytest.approx(0, abs=0.002)


def test_a_loss_that_may_be_luck_is_not_called_as_good():
    _, better, reason = against(*samples(4, 6, 340, 10))
    assert not better and reason.startswith("perhaps worse than the champion, not surely: -0.56")


def test_a_gain_that_nobody_could_make_sure_of_names_no_count_of_samples():
    comparison = against(*samples(6, 4, 340, 10))[0]._replace(gain=1e-9)
    assert judge(comparison, BETTER)[1].startswith("perhaps better than the champion, not surely: ")


def test_a_sure_gain_is_enough():
    comparison, better, reason = against(*samples(20, 4, 326, 10))
    assert comparison.between[0] > 0 and better
    assert "+4.44 points against version 3" in reason


def test_a_worse_model_never_becomes_the_champion():
    assert not against(*samples(4, 20, 326, 10))[1]
    gate = Gate(tolerance=0.01)
    assert not against(*samples(4, 20, 326, 10), gate, weights_saved=10**6)[1]


def test_a_margin_has_to_be_sure_too():
    assert against(*samples(20, 4, 326, 10), Gate(better_by=0.01))[1]
    _, better, reason = against(*samples(20, 4, 326, 10), Gate(better_by=0.04))
    assert not better and "more than 4 points better" in reason


def test_more_confidence_asks_for_more():
    both = samples(12, 4, 334, 10)
    assert against(*both, Gate(confidence=0.9))[1]
    assert not against(*both, Gate(confidence=0.999))[1]


def test_a_smaller_model_may_be_less_accurate_within_the_tolerance():
    both = samples(4, 5, 3590, 10)
    gate = Gate(tolerance=0.01)
    _, better, reason = against(*both, gate, weights_saved=1234)
    assert better and "smaller by 1,234 weights" in reason
    assert not against(*both, gate, weights_saved=0)[1]
    assert not against(*both, BETTER, weights_saved=1234)[1]


def test_no_class_may_lose_more_than_is_said():
    right, champion_right = samples(30, 3, 317, 10)
    labels = champion_right & ~right  # what was lost is of the class bee
    labels[40:100] = 1
    gate = Gate(class_loss=0.02)
    comparison, better, reason = against(right, champion_right, gate, labels)
    assert comparison.recall_gain["bee"] == pytest.approx(-3 / 63)
    assert not better and "class bee loses 4.76 points" in reason
    assert against(right, champion_right, BETTER, labels)[1]


def test_the_interval_is_that_of_scipys_paired_bootstrap():
    right, champion_right = samples(40, 25, 400, 35)
    comparison = against(right, champion_right)[0]
    found = bootstrap(
        (right, champion_right),
        lambda one, other, axis: one.mean(axis) - other.mean(axis),
        paired=True,
        confidence_level=0.9,  # of both ends together
        method="percentile",
        random_state=0,
    ).confidence_interval
    assert comparison.between[0] == pytest.approx(found.low, abs=0.004)
    assert comparison.between[1] == pytest.approx(found.high, abs=0.004)


def test_one_sample_that_is_far_out_does_not_hide_how_the_others_spread():
    gains = np.random.default_rng(5).normal(0.002, 1, 1000)
    gains[0] = 1e5
    drawn = np.random.default_rng(1).integers(0, 1000, (4000, 1000))
    sure = float((gains[drawn].mean(1) > 0).mean())
    assert float((resampled(gains) > 0).mean()) == pytest.approx(sure, abs=0.02)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"better_than": 0.1},
            "gate.better_than is not a field; gate has least, most",
        ),
        ({"better_by": -0.5}, "gate.better_by "),
        ({"least": {"accuracy": "high"}}, "gate.least.accuracy "),
        ({"most": {"rmse": float("nan")}}, "gate.most.rmse "),
        ({"better_by": "much"}, "gate.better_by "),
        ({"confidence": 1.0}, "gate.confidence "),
        ({"class_loss": -0.1}, "gate.class_loss "),
    ],
)
def test_a_gate_that_cannot_be_is_refused(options, said):
    with pytest.raises(InputError) as caught:
        Gate.read("gate", options)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("gate", "passed", "said"),
    [
        ({}, True, "held-out accuracy 0.9100 reaches min_accuracy 0.9"),
        ({"least": {"recall_7": 0.5}}, True, ", recall 7 0.6 reaches gate.least 0.5"),
        ({"least": {"recall_7": 0.7}}, False, "held-out recall 7 0.6 is below gate.least 0.7"),
        ({"most": {"log_loss": 0.2}}, False, "held-out log loss 0.25 is above gate.most 0.2"),
        ({"most": {"log_loss": 0.25}}, True, "log loss 0.25 is within gate.most 0.25"),
        (
            {"most": {"rmse": 1}},
            False,
            "the gate asks for a figure 'rmse', and there are accuracy, log_loss, recall_7",
        ),
    ],
)
def test_any_figure_can_be_asked_for(gate, passed, said):
    figures = {"accuracy": 0.91, "log_loss": 0.25, "recall_7": 0.6}
    found, reason = check_thresholds(figures, Gate.read("gate", gate), 0.9)
    assert found is passed
    assert said in reason


def test_min_accuracy_is_for_models_that_have_one():
    assert check_thresholds({"rmse": 2.0}, BETTER, 0.9) == (
        True,
        "held-out RMSE 2, and no threshold is set",
    )
    assert check_thresholds({"rmse": 2.0}, BETTER, 0)[0]
    assert check_thresholds({"Accuracy": 1.0}, BETTER, 0.99) == (
        False,
        "the gate asks for a figure 'accuracy', and there are Accuracy",
    )


def test_a_figure_that_nothing_has_is_refused_before_a_run():
    check(0.9, {"least": {"recall_7": 0.5, "accuracy": 0.9}, "most": {"perplexity": 9}}, {})
    with pytest.raises(InputError, match=r"gate: there is no figure 'rsme', but accuracy, "):
        check(0.9, {"most": {"rsme": 1}}, {})
    check(0.9, {"most": {"rsme": 1}}, {"entrypoint": "evaluate.py"})


def promoted(trials, gate, runs=300, size=500):
    """Returns in what share of sweeps the best of equal models becomes the champion.

    All are as good as the champion, and chosen by the samples that judge them.
    """
    random = np.random.default_rng(trials)
    better = 0
    for _ in range(runs):
        of_champion, *tried = random.random((trials + 1, size)) < 0.9
        best = max(tried, key=lambda right: right.sum())
        better += against(best, of_champion, gate)[1]
    return better / runs


@pytest.mark.parametrize("trials", [3, 30])
def test_the_best_of_many_equal_models_is_promoted_no_more_often_than_one(trials):
    assert promoted(trials, BETTER) > 0.08
    # Of 300 sweeps 5 % are 15, with a standard deviation of 3.8.
    assert promoted(trials, BETTER.for_best_of(trials)) < 0.09


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 12])
def test_of_equal_models_few_samples_promote_no_more_often_than_many(size):
    chance = 0.0
    for won in range(size + 1):
        for lost in range(size + 1 - won):
            if against(*samples(won, lost, size - won - lost, 0))[1]:
                # Each is right where the other is not on a quarter of the samples.
                ways = comb(size, won) * comb(size - won, lost)
                chance += ways * 0.25 ** (won + lost) * 0.5 ** (size - won - lost)
    assert chance <= 0.05


@pytest.mark.parametrize("size", [2, 4, 7, 10, 25])
def test_nor_do_they_where_errors_are_numbers(size):
    random = np.random.default_rng(size)
    errors = np.abs(random.normal(size=(2, 400, size)))
    # Without a bootstrap, which would take long and only widen it.
    found = [
        paired_interval(gains, gains.mean(keepdims=True), 0.9) for gains in errors[0] - errors[1]
    ]
    # Of 400 pairs 5 % are 20, with a standard deviation of 4.4.
    assert sum(low > 0 for low, _ in found) <= 31
    assert sum(high < 0 for _, high in found) <= 31


def test_few_samples_are_enough_for_a_model_that_is_better_on_all():
    assert not against(*samples(4, 0, 0, 0))[1]
    assert against(*samples(5, 0, 0, 0))[1]
    gains = np.array([0.2, 0.3, 0.1, 0.2, 0.4])
    assert paired_interval(gains, resampled(gains), 0.9) == (0.1, 0.4)
    low, high = paired_interval(gains[:4], resampled(gains[:4]), 0.9)
    assert (low, high) == (-np.inf, np.inf)


@pytest.mark.parametrize(("trials", "enough"), [(30, 10), (100, 11), (1000, 15), (5000, 17)])
def test_the_best_of_very_many_has_to_be_as_sure_as_is_said(trials, enough):
    gate = BETTER.for_best_of(trials)
    for won in (enough - 1, enough):  # by chance as often as a coin falls on one side so often
        assert (0.5**won <= 1 - gate.confidence) is (won == enough)
        assert against(*samples(won, 0, 300 - won, 60), gate)[1] is (won == enough)
