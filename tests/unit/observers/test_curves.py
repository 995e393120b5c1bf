"""The metrics that a training's program prints, as they are kept."""

import threading
import time

import pytest

from trireme.observers import curves
from trireme.observers.curves import BURST, NAMES, Curves


class Kept:
    """What is kept of the lines of a program, at a time that stands still."""

    def __init__(self, monkeypatch):
        self.now, self.points, self.units = 100.0, {}, {}
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.curves = Curves("worker-0", self.keep)

    def keep(self, new):
        for name, points in new.items():
            self.points.setdefault(name, []).extend((each.step, each.value) for each in points)
            self.units.setdefault(name, []).extend(each.unit for each in points)

    def lines(self, *lines):
        self.curves.lines("worker-0", "\n".join(lines))

    def end(self):
        self.curves.end(None)
        return self.points


@pytest.fixture
def kept(monkeypatch):
    return Kept(monkeypatch)


def test_metrics_are_passed_on_now_and_then_and_at_the_end(kept):
    kept.curves.lines("worker-1", "epoch 9 loss 9")
    kept.lines("epoch 1 loss 3", "nothing", "epoch 2 loss 2")
    kept.curves.rewritten("worker-0", "Epoch 3:  50%|███  | 5/10 [00:01<00:01, 4.9it/s, acc=0.5]")
    kept.curves.tick(None)
    assert kept.points == {}
    kept.now += curves.EVERY
    kept.curves.tick(None)
    assert kept.points == {"loss": [(1, 3.0), (2, 2.0)], "acc": [(25, 0.5)]}
    kept.lines("loss 1")
    assert kept.end()["loss"][-1] == (25, 1.0)
    assert kept.curves.last == {"loss": 1.0, "acc": 0.5}


def test_it_is_known_what_steps_count(kept):
    kept.lines("epoch 1 loss 3", "Train Epoch: 2 [640/6400 (10%)]\tLoss: 2", "Epoch 2: loss 1")
    kept.lines("step 7 acc 0.5")
    kept.end()
    assert kept.points == {"loss": [(1, 3.0), (7040, 2.0), (12800, 1.0)], "acc": [(7, 0.5)]}
    assert kept.units == {"loss": ["epoch", "sample", "sample"], "acc": ["step"]}


def test_values_without_a_step_are_counted(kept):
    kept.lines("loss 3", "loss 2", "acc: 0.5", "loss 1")
    assert kept.end() == {"loss": [(1, 3.0), (2, 2.0), (3, 1.0)], "acc": [(1, 0.5)]}


def test_of_very_many_values_some_are_kept_and_always_the_last(kept):
    many = 20 * BURST
    kept.lines(*(f"step {step} loss {step / many}" for step in range(many)), "val_loss: 0.5")
    for _ in range(3):
        kept.now += 1
        kept.lines(*(f"step {step} loss 0.5" for step in range(many, many + 50)))
    found = kept.end()
    assert BURST <= len(found["loss"]) <= BURST + 10
    assert found["loss"][-1] == (many + 49, 0.5)
    assert found["val_loss"] == [(many - 1, 0.5)]  # whose step is that of a line that had to wait


def test_a_line_that_had_to_wait_is_of_where_it_was(kept):
    for epoch in range(3 * BURST):
        kept.lines(f"Epoch {epoch}", f"loss: 0.{epoch}")
    kept.lines("Epoch 5000/6000", "other 7")
    found = kept.end()["loss"]
    assert found[-1] == (3 * BURST - 1, float(f"0.{3 * BURST - 1}"))
    assert [step for step, _ in found[:3]] == [0, 1, 2]


def test_names_are_kept_up_to_a_number(kept):
    kept.lines(*(f"epoch 1 loss_{'x' * n}=0.5" for n in range(1, 2 * NAMES)))
    assert len(kept.end()) <= NAMES


def test_lines_that_are_all_different_do_not_hold_up_a_program(kept, monkeypatch):
    read = []
    monkeypatch.setattr(kept.curves._reader, "read", lambda line: read.append(line))
    letters = "abcdefghij"
    kept.lines(*("".join(letters[int(d)] for d in str(n)) + " 1" for n in range(50_000)))
    assert len(read) <= curves.LINES + 1
    assert len(kept.curves._forms) <= curves.FORMS


def test_lines_come_while_others_are_passed_on(kept):
    threads = [
        threading.Thread(target=kept.lines, args=[f"step {n} loss 0.5"] * 50) for n in range(4)
    ]
    for thread in threads:
        thread.start()
        kept.now += curves.EVERY
        kept.curves.tick(None)
    for thread in threads:
        thread.join()
    assert len(kept.end()["loss"]) == 200


def test_no_value_is_kept_twice(kept):
    kept.lines(*(f"epoch {epoch} loss 0.{epoch}" for epoch in range(2 * BURST)), "val loss: 0.5")
    steps = [step for step, _ in kept.end()["loss"]]
    assert len(steps) == len(set(steps))
