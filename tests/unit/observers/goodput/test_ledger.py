"""What the time of a training went to, by cause: each of records whose sums are known."""

import json
import time
from dataclasses import asdict

import pytest

from trireme.observers.goodput.ledger import (
    CAUSES,
    Checkpoint,
    Facts,
    Ledger,
    Mark,
    from_metrics,
    ledger,
    metrics,
    sentence,
)
from trireme.observers.timeline import QUEUED, RESTARTING, RUNNING, STARTING, Span


def steps(began, ended, first, *, every=1.0, unit="step"):
    """Returns marks of a program that does a step each so often, until some time."""
    count = round((ended - began) / every)
    return [Mark(began + n * every, unit, first + n) for n in range(count + 1)]


def found(replicas, until, **more):
    """Returns the seconds of each cause of a job that was made at 0."""
    spans = {name: [Span(*span) for span in spans] for name, spans in replicas.items()}
    whole = ledger(Facts(0, until, spans, "master-0", **({"expected": len(spans)} | more)))
    assert whole.whole == pytest.approx(until), "the causes are not all of the time"
    return whole


def seconds(of):
    return {cause: pytest.approx(value) for cause, value in of.seconds.items()}


def test_a_training_that_nothing_happens_to():
    spans = [(QUEUED, 0, 30), (STARTING, 30, 50), (RUNNING, 50, 150)]
    pulls = {"master-0": [(33, 48)]}
    marks = steps(70, 149, 1)
    of = found({"master-0": spans}, 150, marks=marks, pulls=pulls, preflights=[54], checkpoints=[])
    expected = {"queue": 30, "start": 5, "image": 15, "preflight": 4, "first_step": 16}
    assert of.seconds == expected | {"training": 80}
    assert of.share == pytest.approx(80 / 120)
    assert (of.interruptions, of.checkpoints, of.silent, of.ran) == (0, 0, 0, 100)


def test_a_job_waits_for_its_last_replica_and_holds_the_others_meanwhile():
    replicas = {
        "master-0": [(QUEUED, 0, 10), (STARTING, 10, 20), (RUNNING, 20, 100)],
        "worker-0": [(QUEUED, 0, 40), (STARTING, 40, 60), (RUNNING, 60, 100)],
    }
    gpus, prices = {"master": 1, "worker": 3}, {"master": 36, "worker": 72}
    of = found(replicas, 100, gpus=gpus, prices=prices, currency="EUR")
    assert of.seconds == {"queue": 40, "start": 20, "training": 40}
    assert of.gpu_seconds == {"queue": 30, "start": 20 + 60, "training": 40 * 4}
    assert of.cost == pytest.approx({"queue": 0.3, "start": 0.6, "training": 0.4 + 0.8})
    assert of.replica_seconds == 80 + 40


def test_steps_that_are_done_once_more_are_repeated():
    spans = [(RUNNING, 0, 60, "killed"), (RESTARTING, 60, 65), (RUNNING, 65, 200)]
    marks = steps(10, 59, 1) + steps(80, 199, 31)  # 50 steps, and on from the 31st
    of = found({"master-0": spans}, 200, marks=marks)
    assert seconds(of) == {
        "first_step": 10 + 15,
        "restart": 5,
        "repeated": 19,  # until the 50th step, at 99
        "training": 50 + 101,
    }
    assert (of.interruptions, of.restarts, of.restarting) == (1, 1, 20)
    assert of.between_interruptions == 195


def test_a_training_that_begins_from_nothing_repeats_all():
    spans = [(RUNNING, 0, 60, "killed"), (RESTARTING, 60, 65), (RUNNING, 65, 100)]
    marks = steps(10, 59, 1) + steps(70, 99, 1)
    of = found({"master-0": spans}, 100, marks=marks)
    assert seconds(of) == {"first_step": 15, "restart": 5, "repeated": 30, "training": 50}


def test_where_steps_are_told_seldom_what_lies_between_is_shared_out():
    spans = [(RUNNING, 0, 60, "killed"), (RESTARTING, 60, 65), (RUNNING, 65, 200)]
    marks = [Mark(50, "step", 50), Mark(80, "step", 30), Mark(120, "step", 70)]
    of = found({"master-0": spans}, 200, marks=marks)
    assert of.seconds["repeated"] == pytest.approx(20)


def test_an_attempt_that_comes_to_no_step_is_all_start():
    spans = [(RUNNING, 0, 60, "failed"), (RESTARTING, 60, 65), (RUNNING, 65, 100)]
    of = found({"master-0": spans}, 100, marks=steps(70, 99, 1))
    assert seconds(of) == {"first_step": 60 + 5, "restart": 5, "training": 30}


def test_replicas_that_fail_one_after_another_are_one_interruption():
    replicas = {
        "master-0": [(RUNNING, 0, 62, "lost"), (RESTARTING, 62, 63), (RUNNING, 63, 100)],
        "worker-0": [(RUNNING, 0, 60, "killed"), (RESTARTING, 60, 61), (RUNNING, 61, 100)],
    }
    of = found(replicas, 100, marks=steps(5, 59, 1) + steps(70, 99, 30))
    assert seconds(of) == {"first_step": 12, "restart": 3, "repeated": 25, "training": 60}
    assert (of.interruptions, of.restarting) == (1, 10)


def test_units_that_differ_are_not_compared():
    spans = [(RUNNING, 0, 60, "killed"), (RESTARTING, 60, 65), (RUNNING, 65, 100)]
    marks = [Mark(50, "epoch", 9), Mark(70, "step", 4), Mark(90, "step", 8)]
    assert "repeated" not in found({"master-0": spans}, 100, marks=marks).seconds


def test_a_resumed_run_repeats_what_the_run_before_had_done():
    spans = [(RUNNING, 5, 100)]
    marks = steps(20, 99, 31)
    of = found({"master-0": spans}, 100, marks=marks, reached={"step": 50}, is_resumed=True)
    assert (of.seconds["repeated"], of.interruptions, of.restarting) == (19, 1, 20)


def test_checkpoint_stops_and_hangs_are_no_training():
    spans = [(RUNNING, 0, 200, "killed"), (RESTARTING, 200, 205), (RUNNING, 205, 300)]
    marks = [*steps(10, 90, 1), *steps(210, 299, 61)]
    checkpoints = [
        Checkpoint(22, 20, 2),
        Checkpoint(42, 40, 3),
        Checkpoint(62),
        Checkpoint(222, 220, 4),  # while steps are repeated
    ]
    of = found({"master-0": spans}, 300, marks=marks, checkpoints=checkpoints, hangs=[(90, 200)])
    assert seconds(of) == {
        "first_step": 15,
        "training": 80 - 5 + 70,
        "checkpoint": 9,
        "hang": 110,
        "restart": 5,
        "repeated": 20 - 4,
    }
    assert (of.checkpoints, of.stops, of.stop) == (4, 3, 3)
    assert (of.gaps, of.saved_every) == (2, 20)  # none over an interruption


def test_many_checkpoints_are_shared_out_at_once():
    saved = [Checkpoint(10 * n + 1, 10 * n, 1.0) for n in range(1, 20_001)]
    began = time.monotonic()
    of = found(
        {"master-0": [(RUNNING, 0, 200_100)]},
        200_100,
        marks=[Mark(1, "step", 1), Mark(200_100, "step", 9)],
        checkpoints=saved,
    )
    assert time.monotonic() < began + 5  # each by itself took minutes
    assert of.seconds["checkpoint"] == pytest.approx(20_000)


def test_a_clock_that_is_set_back_makes_nothing_negative():
    of = found(
        {"master-0": [(RUNNING, 0, -50)]}, 100, checkpoints=[Checkpoint(60, 60), Checkpoint(10, 10)]
    )
    assert min(value for value in metrics(of).values()) >= 0


def test_a_program_that_tells_nothing_counts_as_training_and_that_is_said():
    of = found({"master-0": [(RUNNING, 0, 60)]}, 60)
    assert (of.seconds, of.silent) == ({"training": 60}, 60)
    assert sentence(of).endswith("it tells no progress, so running counts as training")
    assert of.checkpoints is None


def test_what_was_not_seen_is_unknown():
    gap = [(RUNNING, 0, 10), (RUNNING, 40, 60)]  # what lay between is no longer kept
    assert found({"master-0": gap}, 60).seconds == {"training": 30, "unknown": 30}
    late = found({"master-0": [(RUNNING, 0, 60)]}, 60, marks=steps(31, 59, 9), followed=30)
    assert late.seconds == {"unknown": 31, "training": 29}


def test_replicas_that_are_left_when_the_leader_has_ended_are_idle():
    replicas = {"master-0": [(RUNNING, 0, 60)], "worker-0": [(RUNNING, 0, 80)]}
    of = found(replicas, 80, gpus={"worker": 2})
    assert of.seconds == {"training": 60, "idle": 20}
    assert of.gpu_seconds == {"training": 120, "idle": 40}


def test_a_replica_that_has_finished_early_is_not_waited_for():
    replicas = {"master-0": [(RUNNING, 0, 60)], "worker-0": [(RUNNING, 0, 20)]}
    assert found(replicas, 60).seconds == {"training": 60}


def test_when_a_replica_has_failed_for_good_the_others_are_ending():
    replicas = {"master-0": [(RUNNING, 0, 63)], "worker-0": [(RUNNING, 0, 60, "killed")]}
    of = found(replicas, 63, marks=steps(1, 59, 1))
    assert of.seconds == {"first_step": 1, "training": 59, "idle": 3}
    goes_on = found(replicas, 63, marks=steps(1, 62, 1))
    assert goes_on.seconds == {"first_step": 1, "training": 62}


def test_an_elastic_job_trains_while_enough_of_it_runs():
    replicas = {
        "master-0": [(RUNNING, 0, 60)],
        "worker-0": [(QUEUED, 0, 30), (STARTING, 30, 40), (RUNNING, 40, 60)],
    }
    assert found(replicas, 60, needed=1).seconds == {"training": 60}
    assert found(replicas, 60).seconds == {"queue": 30, "start": 10, "training": 20}


def test_pods_that_are_not_there_are_queued():
    of = found({"master-0": [(RUNNING, 10, 60)]}, 60, expected=2)
    assert of.seconds == {"queue": 60}
    assert found({}, 60, expected=2).seconds == {"queue": 60}


def test_a_sum_is_that_of_both_and_money_of_two_kinds_has_none():
    one = found({"master-0": [(QUEUED, 0, 5), (RUNNING, 5, 60)]}, 60, gpus={"master": 1})
    two = found({"master-0": [(RUNNING, 0, 60)]}, 60, checkpoints=[Checkpoint(9)])
    both = one + two
    assert both.seconds == {"training": 115, "queue": 5}
    assert (both.checkpoints, both.gpu_seconds) == (1, {"training": 55})
    euros, dollars = (
        Ledger(cost={"hang": 1}, currency="EUR"),
        Ledger(cost={"hang": 1}, currency="USD"),
    )
    assert ((euros + euros).cost, (euros + euros).currency) == ({"hang": 2}, "EUR")
    assert ((euros + Ledger()).currency, (euros + dollars).cost) == ("EUR", {})


def test_metrics_tell_all_of_it():
    spans = [(QUEUED, 0, 9), (RUNNING, 9, 60), (RESTARTING, 60, 65), (RUNNING, 65, 100)]
    of = found(
        {"master-0": spans},
        100,
        marks=steps(12, 59, 1) + steps(70, 99, 40),
        checkpoints=[Checkpoint(32, 30, 2), Checkpoint(52)],
        gpus={"master": 8},
        prices={"master": 20},
        currency="EUR",
    )
    again = from_metrics(json.loads(json.dumps(metrics(of))), "EUR")
    for name, value in asdict(of).items():
        assert asdict(again)[name] == pytest.approx(value), name
    assert again.share == pytest.approx(of.share)
    assert (again.stop, again.checkpoints) == (of.stop, 2)
    assert from_metrics({"loss": 1.0}) is None
    for value in (float("nan"), float("inf"), -1.0):
        assert from_metrics(metrics(of) | {"goodput/interruptions": value}) is None
        odd = from_metrics(metrics(of) | {"goodput/minutes/training": value})
        assert "training" not in odd.seconds
    assert {name.split("/")[-1] for name in metrics(of)} & {*CAUSES} == {*of.seconds}


def test_a_sentence_has_the_longest_first():
    spans = [(QUEUED, 0, 600), (RUNNING, 600, 4200)]
    of = found(
        {"master-0": spans},
        4200,
        marks=steps(1200, 4199, 1),
        gpus={"master": 2},
        prices={"master": 3.0},
        currency="EUR",
    )
    assert sentence(of) == (
        "83% of 1 h 00 min: training 50 min 00 s, first step 10 min 00 s; "
        "10 min 00 s in the queue before; 2.00 GPU hours; 3.00 EUR"
    )
