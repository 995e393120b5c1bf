"""The reader of what programs print; beside this are their lines, and what is read of them."""

import json
import time
from functools import partial
from pathlib import Path

import pytest

from trireme.observers.printed.reader import Reader

PRINTED = Path(__file__).parent

exactly = partial(pytest.approx, rel=0, abs=0, nan_ok=True)


@pytest.mark.parametrize("name", sorted(file.stem for file in PRINTED.glob("*.txt")))
def test_of_what_real_programs_print_all_metrics_are_read_and_nothing_else(name):
    expected = json.loads((PRINTED / f"{name}.json").read_text())["read"]
    reader, found = Reader(), {}
    text = (PRINTED / f"{name}.txt").read_bytes().decode()
    for number, line in enumerate(text.split("\n"), start=1):
        for state in line.rstrip("\r").split("\r")[:-1]:
            reader.read(state)  # of a bar, which whoever follows it sees now and then
        reading = reader.read(line)
        if reading:
            found[str(number)] = {"step": reading.step} | reading.metrics
    assert found.keys() == expected.keys()
    for number, values in expected.items():
        assert found[number].pop("step") == values.pop("step")
        assert found[number] == exactly(values)


def test_the_lines_that_are_read_are_not_fewer_than_they_were():
    counts = [len(json.loads(file.read_text())["read"]) for file in PRINTED.glob("*.json")]
    assert sum(counts) >= 240


def steps(*lines):
    reader = Reader()
    readings = [reader.read(line) for line in lines]
    return [reading.step for reading in readings if reading]


def test_steps_within_an_epoch_go_on_from_one_epoch_to_the_next():
    assert steps("Epoch 1/2", "5/10 ━━━ 1s - loss: 2", "Epoch 2/2", "5/10 ━━━ 1s - loss: 1") == [
        *(5, 15)
    ]
    bars = [f"Epoch {n}:  50%|███  | 5/10 [00:01<00:01, 4.9it/s, loss=0.3]" for n in (0, 1, 2)]
    assert steps(*bars) == [5, 15, 25]
    assert steps("[1,  2000] loss: 2", "[1,  4000] loss: 2", "[2,  2000] loss: 1") == [
        *(2000, 4000, 6000)
    ]


def test_a_line_at_the_end_of_an_epoch_is_of_its_last_step():
    bar = "Epoch {}:  50%|███  | 5/10 [00:01<00:01, 4.9it/s, loss=0.3]"
    assert steps(bar.format(1), "Epoch 1: loss=0.2", bar.format(2), "Epoch 2: loss=0.1") == [
        *(5, 10, 15, 20)
    ]


def test_a_bar_of_the_whole_counts_its_own_steps():
    lines = ["epoch 1/2", "loss: 1 [10/40]", "epoch 2/2", "loss: 1 [30/40]"]
    assert steps(*lines) == [10, 30]


def test_a_line_without_a_step_is_of_the_one_before():
    assert steps("Epoch 7", "val loss: 0.5") == [7]
    assert steps("loss: 0.5") == [None]


def test_a_training_that_begins_again_counts_again():
    assert steps("epoch 1 loss 3", "epoch 2 loss 2", "epoch 1 loss 3") == [1, 2, 1]


@pytest.mark.parametrize(
    "line",
    [
        "1%|" * 400_000,
        "loss " * 200_000,
        "loss" + " " * 1_000_000 + "1",
        "a" * 1_000_000 + " 1",
        "x 1 " * 250_000,
        "[" * 1_000_000 + "INFO",
        "a.b-" * 250_000 + " INFO 1",
        "{'a': " * 100_000 + "1",
        "(" * 1_000_000,
        "loss 0." + "0" * 1_000_000,
        "epoch" + " x" * 500_000,
        "epoch 999999999999999999999/1 loss 1e999",
        "\x1b[" * 500_000,
        "\x00\ud800 loss 1",
    ],
)
def test_a_hostile_line_takes_no_time(line):
    started = time.process_time()
    for text in ("epoch  loss  acc", line):
        Reader().read(text)
    assert time.process_time() - started < 0.2


@pytest.mark.parametrize(
    ("lines", "steps"),
    [
        (
            ["step 100 loss 3", "step 200 loss 2", "epoch 1 loss 2.5", "step 300 loss 1"],
            [100, 200, 200, 300],
        ),
        (
            ["step 100 loss 3", "step 200 loss 2", "epoch 1 loss 2.5", "step 100 loss 1"],
            [100, 200, 200, 300],
        ),
        (["Epoch 1/2", "batch 20 loss 3", "Epoch 2/2", "batch 10 loss 1"], [20, 30]),
        (["iter 20/100: loss 3", "epoch 1: loss 2", "iter 10/100: loss 1"], [20, 100, 110]),
        (["iter 20/100: loss 3", "epoch 0: loss 2", "iter 10/100: loss 1"], [20, 100, 110]),
    ],
)
def test_an_epoch_and_its_steps_are_on_one_scale(lines, steps):
    reader = Reader()
    readings = [reader.read(line) for line in lines]
    found = [reading for reading in readings if reading]
    assert [reading.step for reading in found] == steps
    assert {reading.unit for reading in found} == {"step"}


def test_epochs_are_epochs_where_no_steps_are_told():
    reader = Reader()
    lines = ("step 5 loss 9", "epoch 1 loss 3", "epoch 2 loss 2", "epoch 3 loss 1")
    found = [reader.read(line) for line in lines]
    assert [(reading.step, reading.unit) for reading in found] == [
        (5, "step"),
        (5, "step"),
        (2, "epoch"),
        (3, "epoch"),
    ]
