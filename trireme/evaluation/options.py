"""Options of an evaluation, without the NumPy that evaluating needs."""

import math
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field

from trireme.errors import InputError
from trireme.job.values import Argument, Text, VariableName
from trireme.strict_model import StrictModel, dotted
from trireme.text.json_values import words

FIGURES = (
    *("accuracy", "macro_f1", "log_loss", "roc_auc"),
    *("mean_absolute_error", "rmse", "largest_error", "r2"),
    *("perplexity", "loss", "bits_per_token", "token_accuracy"),
)
"""All that is found out about classifiers, regressions and language models."""

MIN_ACCURACY = 0.9
"""The lowest accuracy at which a classifier passes, where nothing else is given."""

MENDED = "evaluation-program.json"
"""What says, in the run workspace, of an evaluation program that is not that of the commit."""

BY_CLASS = ("precision_", "recall_")
"""What the names of figures of one class begin with."""

_SHARE, _AMOUNT, _R2 = (0.0, 1.0), (0.0, math.inf), (-math.inf, 1.0)
_RANGES = {
    **dict.fromkeys(("accuracy", "macro_f1", "roc_auc", "token_accuracy"), _SHARE),
    **dict.fromkeys(("mean_absolute_error", "rmse", "largest_error"), _AMOUNT),
    **dict.fromkeys(("log_loss", "perplexity", "bits_per_token"), _AMOUNT),
    "r2": _R2,
}

Share = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Bound = Annotated[float, Field(allow_inf_nan=False)]


def outside(name: str, value: float, rounded: float = 0.0) -> str:
    """Returns what a figure of this name has to be, in words; empty where the value is that.

    Args:
        rounded: How far outside it may be, as figures are that have been rounded.
    """
    low, high = _RANGES.get(name, _SHARE if name.startswith(BY_CLASS) else (-math.inf, math.inf))
    if low - rounded <= value <= high + rounded:
        return ""
    if (low, high) == _SHARE:
        return "must be between 0 and 1"
    return "must not be below 0" if value < low else "must not be above 1"


class Gate(StrictModel):
    """What a model has to reach to be exported, and to take the champion's place.

    A model is better than the champion by its accuracy, 0 to 1; by the mean absolute error of a
    regression; by a language model's loss per token, in nats; by what a program of one's own
    leaves in ``scores.npy``.
    """

    least: dict[str, Bound] = {}
    """Figures by name that have to be at least so much: ``{"accuracy": 0.9, "recall_7": 0.8}``."""

    most: dict[str, Bound] = {}
    """Figures by name that may be at most so much: ``{"rmse": 2.5}``."""

    better_by: Amount = 0.0
    """How much better than the champion it has to be on the same held-out samples."""

    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    """How sure that has to be, by a paired bootstrap and by tests that hold for few samples."""

    tolerance: Amount | None = None
    """A model with fewer weights may be worse by this much; none: it may not."""

    class_loss: Share | None = None
    """How much of its recall no class may lose against the champion; none: whatever it may be."""

    def for_best_of(self, count: int) -> Self:
        """Returns the gate for the best of so many models by the samples that judge it here.

        Of models that are no better than the champion, the one that seems best does so by chance,
        the more surely the more there are: the Bonferroni correction.
        """
        return self.model_copy(update={"confidence": 1 - (1 - self.confidence) / count})


class CustomEvaluation(StrictModel):
    """A program that evaluates a model."""

    entrypoint: str
    """The program, a .py file in the repository."""

    args: list[Argument] = []
    """Its arguments."""

    env: dict[VariableName, Text] = {}
    """More environment variables for it; $(NAME) in them stands for another, as MODEL_DIR."""


def custom_evaluation(options: dict[str, Any]) -> CustomEvaluation | None:
    """Returns the program that a pipeline's parameter describes; None where it is empty."""
    if not options:
        return None
    options = options | {"args": words(options.get("args", []))}
    if isinstance(options.get("env"), dict):
        names = options["env"]
        options["env"] = dict(zip(names, words(list(names.values())), strict=True))
    program = CustomEvaluation.read("evaluation", options)
    path = Path(program.entrypoint)
    if path.suffix != ".py" or path.is_absolute() or ".." in path.parts:
        raise InputError(
            f"evaluation.entrypoint {program.entrypoint!r}: must be a .py file in the repository"
        )
    return program


def check(min_accuracy: float, gate: dict[str, Any], evaluation: dict[str, Any]) -> None:
    """Refuses a gate or an evaluation that cannot be."""
    if not 0 <= min_accuracy <= 1:
        raise InputError(f"min_accuracy {min_accuracy}: must be between 0 and 1")
    thresholds = Gate.read("gate", gate)
    for field, bounds in (("least", thresholds.least), ("most", thresholds.most)):
        for name, bound in bounds.items():
            if wrong := outside(name, bound):
                raise InputError(f"{dotted(('gate', field, name))} {bound:g}: {wrong}")
    if custom_evaluation(evaluation):
        return  # which finds whatever it finds
    for name in (*thresholds.least, *thresholds.most):
        if name not in FIGURES and not name.startswith(BY_CLASS):
            raise InputError(
                f"gate: there is no figure {name!r}, but {', '.join(FIGURES)}, and of each class "
                "precision_CLASS and recall_CLASS"
            )
