"""What the figures of a classifier cost, by the size of its answers; the base are the answers.

Answers of 10 and of 1,000 classes, a hundredth, a tenth and all of them: 1,000,000 x 10 and
50,000 x 1,000, which is ImageNet's size. Printed are CPU seconds, the peak of memory with the
answers in it relative to the answers, what that is above twice the answers, and the exponents.

    python benchmarks/evaluation_growth.py [SHARE]

SHARE makes all of it smaller, as 0.1 does by ten.
"""

import sys
from functools import partial

import numpy as np
from growth import MIB, Cost, cost, exponent

from trireme.evaluation.classification import Classification
from trireme.evaluation.held_out import BATCH

SIZES = ((1_000_000, 10), (50_000, 1_000))
GOAL = 200  # MiB besides twice the answers
SECONDS = 5.0


def evaluate(samples: int, classes: int) -> float:
    """Takes in answers batch by batch, as the step does, and returns the accuracy."""
    random = np.random.default_rng(0)
    measure = Classification([])
    for start in range(0, samples, BATCH):
        count = min(BATCH, samples - start)
        labels = random.integers(0, classes, count)
        outputs = random.standard_normal((count, classes), np.float32)
        outputs[np.arange(count), labels] += 2
        measure.add(outputs, labels)
    return measure.evaluation().figures["accuracy"]


def measured(samples: int, classes: int) -> Cost:
    """Measures one size and prints its row."""
    spent = cost(partial(evaluate, samples, classes))
    size = samples * classes * 4
    print(
        f"{samples:9,} x {classes:<5,} {spent.cpu:6.2f} s {spent.memory / MIB:6,.0f} MiB "
        f"{spent.memory / size:8.2f} x the answers "
        f"{(spent.memory - 2 * size) / MIB:6,.0f} MiB above "
        f"twice (goal {GOAL})",
        flush=True,
    )
    return spent


def main(share: float) -> None:
    """Measures and prints the table."""
    for samples, classes in SIZES:
        sizes = [int(share * samples / less) for less in (100, 10, 1)]
        costs = [measured(size, classes) for size in sizes]
        grows = exponent(sizes, [spent.cpu for spent in costs])
        print(f"exponent of CPU {grows:.2f}; goal for the largest {SECONDS:.0f} s", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
