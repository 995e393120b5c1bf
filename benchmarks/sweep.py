"""How good the winner of a sweep is, and how many epochs it took: TPE and chance against a grid.

On public functions, whose least value is known, and on the digits: a network of one hidden layer,
chosen by validation samples and tested once. All trainings have the same number of epochs unless
they are stopped early. Each search is repeated with other seeds; a grid chooses the same each time.

    python benchmarks/sweep.py [SEEDS]
"""

import statistics
import sys
import tempfile
from collections.abc import Callable
from math import cos, exp, pi, sqrt
from pathlib import Path

import torch
from sklearn.datasets import load_digits

from trireme.evaluation.trials import TrialResult
from trireme.sweep import study
from trireme.sweep.early_stopping import StoppedEarly
from trireme.sweep.search_space import GRID, RANDOM, TPE, save, space, trials

EPOCHS = 10
PRUNERS = ("hyperband", "median")
Score = Callable[..., float]
Scores = Callable[..., list[float]]


def branin(x: float, y: float) -> float:
    """Branin's function on its usual square, both sides of it made 0 to 1; least: 0.398."""
    a, b = 15 * x - 5, 15 * y
    first = b - 5.1 / (4 * pi**2) * a**2 + 5 / pi * a - 6
    return first**2 + 10 * (1 - 1 / (8 * pi)) * cos(a) + 10


def ackley(x: float, y: float) -> float:
    """Ackley's function about (0.3, 0.6), which no grid is made for; least: 0."""
    a, b = 4 * (x - 0.3), 4 * (y - 0.6)
    far, rough = sqrt((a**2 + b**2) / 2), (cos(2 * pi * a) + cos(2 * pi * b)) / 2
    return 20 + exp(1) - 20 * exp(-0.2 * far) - exp(rough)


class Digits:
    """Trains on the digits."""

    def __init__(self) -> None:
        images, labels = (torch.tensor(array) for array in load_digits(return_X_y=True))
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
        images, labels = images[order].float() / 16, labels[order]
        self.train = images[:1000], labels[:1000]
        self.validation = images[1000:1400], labels[1000:1400]
        self.test = images[1400:], labels[1400:]

    def __call__(self, rate: float, width: int) -> list[tuple[float, float]]:
        """Returns the accuracy on the validation samples and on the test's after each epoch."""
        torch.manual_seed(0)
        layers = torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10)
        network = torch.nn.Sequential(*layers)
        optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)
        accuracies = []
        for _ in range(EPOCHS):
            for images, labels in zip(*(tensor.split(50) for tensor in self.train), strict=True):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(images), labels).backward()
                optimizer.step()
            validation, test = (
                float((network(images).argmax(1) == labels).double().mean())
                for images, labels in (self.validation, self.test)
            )
            accuracies.append((validation, test))
        return accuracies


def sweep(
    grid: dict, search: str, count: int, seed: int, scores: Scores, stopping: dict
) -> tuple[dict, int]:
    """Makes the trials of a sweep one after another; returns the best's values, and all epochs."""
    best: tuple[float, dict] = (-float("inf"), {})
    epochs = 0
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        save(search, space(grid, [], "train.py", search), workspace, stopping)
        for trial in trials(grid, [], "train.py", search, count):
            suggested, watch = study.ask(trial, workspace, seed)
            values = {name.removeprefix("--"): value for name, value in suggested.values.items()}
            stopped = ""
            try:
                for score in scores(**values):
                    epochs += 1
                    if watch:
                        watch.lines(f"score {score}")
                        watch.report()
                        if watch.why:
                            raise StoppedEarly(watch.why)
                best = max(best, (score, values), key=lambda pair: pair[0])
            except StoppedEarly as why:
                stopped = str(why)
            result = TrialResult(trial.number, suggested.values, score=score, stopped=stopped)
            study.tell(suggested, result, workspace)
    return best[1], epochs


def compare(
    name: str, grid: dict, ranges: dict, scores: Scores, of_best: Score, seeds: int
) -> None:
    """Prints what the winners of a grid and of searches are worth."""
    combinations = len(trials(grid, []))
    print(f"{name}: {of_best.__doc__}")
    searches = [
        (GRID, grid, 0, ""),
        (RANDOM, ranges, combinations // 2, ""),
        (TPE, ranges, combinations // 2, ""),
        (TPE, ranges, combinations, ""),
    ]
    if name == "digits":  # a function has nothing to report before its end
        for pruner in PRUNERS:
            searches += [(GRID, grid, 0, pruner), (TPE, ranges, combinations, pruner)]
    for search, searched, count, pruner in searches:
        stopping = {"metric": "score", "pruner": pruner} if pruner else {}
        winners, epochs = [], []
        for seed in range(1 if search == GRID else seeds):
            values, trained = sweep(searched, search, count, seed, scores, stopping)
            winners.append(of_best(**values))
            epochs.append(trained)
        print(
            f"  {search:6} {pruner:9} {count or combinations:3} trials "
            f"{statistics.median(epochs):4.0f} epochs: "
            f"median {statistics.median(winners):.4f}, "
            f"from {min(winners):.4f} to {max(winners):.4f}",
            flush=True,
        )


def main(seeds: int) -> None:
    torch.set_num_threads(1)
    unit = {"low": 0, "high": 1}
    sides = [number / 5 for number in range(6)]
    for function in (branin, ackley):
        compare(
            function.__name__,
            {"--x": sides, "--y": sides},
            {"--x": unit, "--y": unit},
            lambda x, y, function=function: [-function(x, y)] * EPOCHS,
            function,
            seeds,
        )
    digits, curves = Digits(), {}

    def trained(rate: float, width: int) -> list[tuple[float, float]]:
        if (rate, width) not in curves:
            curves[rate, width] = digits(rate, width)
        return curves[rate, width]

    def tested(rate: float, width: int) -> float:
        """Accuracy on the test samples of what is best on the validation samples."""
        return trained(rate, width)[-1][1]

    compare(
        "digits",
        {"--rate": [0.0001, 0.001, 0.01, 0.1, 1.0], "--width": [8, 16, 32, 64, 128]},
        {
            "--rate": {"low": 0.0001, "high": 1, "log": True},
            "--width": {"low": 8, "high": 128, "step": 1, "log": True},
        },
        lambda rate, width: [validation for validation, _ in trained(rate, width)],
        tested,
        seeds,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
