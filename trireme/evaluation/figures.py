"""Figures of a model, whatever kind it is of."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

WORST = 12  # samples that a person may want to look at
FEW = 50  # classes that are told one by one

NO_NUMBERS = "the model's outputs are infinite or NaN", "train it so that its loss stays finite"


class Score(NamedTuple):
    """What models are compared by: a number for each sample, the greater the better.

    Attributes:
        factor: What a difference is multiplied with to be shown; negative where less is better.
    """

    name: str
    factor: float = 1.0
    unit: str = ""


class Worst(NamedTuple):
    """A sample that a model does badly on.

    Attributes:
        sample: Its number in the held-out split, from 0.
        said: What the model says; empty where that is nothing to read.
    """

    sample: int
    truth: str
    said: str
    note: str


class Chart(NamedTuple):
    """A chart, and what its axes are: ``across`` the horizontal one, ``up`` the vertical one."""

    title: str
    across: str
    up: str
    series: dict[str, tuple[list[float], list[float]]]
    dots: bool = False


@dataclass(frozen=True)
class Classes:
    """What is found out about a classifier, class by class.

    Attributes:
        confusion: Samples by true class (rows) and predicted class (columns); empty where the
            classes are not few.
        roc: Points of the ROC curve of all classes' probabilities together: false positive
            rates, true positive rates and thresholds.
    """

    names: list[str]
    precision: list[float]
    recall: list[float]
    support: list[int]
    confusion: list[list[int]]
    roc: tuple[list[float], list[float], list[float]]

    @property
    def are_few(self) -> bool:
        """Whether a person can look at each of them, and at every pair."""
        return len(self.names) <= FEW


@dataclass(frozen=True)
class Evaluation:
    """How a model does on the held-out split.

    Attributes:
        figures: By name; the first is what the headline tells.
        between: What that first one is between, with a confidence of 95 %; None where unknown.
        score: What it is compared with the champion by.
        scores: That, by sample; empty where a program of the user's has left none.
        shown: Rows for people to read, each with what there is by name.
    """

    headline: str
    figures: dict[str, float]
    between: tuple[float, float] | None
    score: Score
    scores: np.ndarray
    labels: np.ndarray | None = None
    classes: Classes | None = None
    chart: Chart | None = None
    worst: list[Worst] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)
    shown: list[dict[str, Any]] = field(default_factory=list)

    @property
    def first(self) -> tuple[str, float]:
        """The name and value of the first figure."""
        return next(iter(self.figures.items()))

    @property
    def recorded(self) -> dict[str, float]:
        """The figures that are recorded: of many classes, none by themselves."""
        return self.by_name if self.classes and self.classes.are_few else dict(self.figures)

    @property
    def others(self) -> dict[str, float]:
        """The figures that are recorded besides the first."""
        return {name: value for name, value in self.recorded.items() if name != self.first[0]}

    @property
    def by_name(self) -> dict[str, float]:
        """All figures, those of the classes included: ``recall_7`` is the recall of class 7."""
        if not self.classes:
            return dict(self.figures)
        return self.figures | {
            f"{measure}_{name}": value
            for measure in ("precision", "recall")
            for name, value in zip(self.classes.names, getattr(self.classes, measure), strict=True)
        }


def are_probabilities(outputs: np.ndarray) -> bool:
    """Tells whether outputs are probabilities along their last axis, rather than logits."""
    return bool((outputs >= 0).all()) and np.allclose(outputs.sum(-1, dtype=float), 1, atol=1e-3)
