"""How good a regression is: scikit-learn's figures, and how sure they are."""

import numpy as np

from trireme.components.evaluation.bootstrap import interval, resampled
from trireme.components.evaluation.figures import NO_NUMBERS, WORST, Chart, Evaluation, Score, Worst
from trireme.components.training.result.trained import NotLoadable

DOTS = 1000  # that are drawn

SCORE = Score("mean absolute error", -1)


class Regression:
    """Takes in the answers of a model that foretells one or several numbers."""

    score = SCORE

    def __init__(self) -> None:
        self._said: list[np.ndarray] = []
        self._true: list[np.ndarray] = []

    def add(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        """Takes in a batch.

        Args:
            outputs: What the model says, of shape (samples), (samples, 1) or that of the
                labels.
            labels: What is true, of shape (samples) or (samples, targets).
        """
        said, true = (array.reshape(len(array), -1) for array in (outputs, labels))
        if said.shape != true.shape or labels.ndim > 2:
            raise NotLoadable(
                f"the model's outputs have the shape {outputs.shape}, and the labels y have "
                f"{labels.shape}"
            )
        if not np.isfinite(said).all():
            raise NotLoadable(NO_NUMBERS)
        self._said.append(said.astype(float))
        self._true.append(true.astype(float))

    def scores(self) -> np.ndarray:
        """Returns the absolute error of each sample, on average over its targets, below zero."""
        pairs = zip(self._said, self._true, strict=True)
        return -np.concatenate([np.abs(said - true).mean(1) for said, true in pairs])

    def evaluation(self) -> Evaluation:
        """Returns what all batches together say."""
        from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

        said, true = np.concatenate(self._said), np.concatenate(self._true)
        scores = self.scores()
        error = float(mean_absolute_error(true, said))
        figures = {
            "mean_absolute_error": error,
            "rmse": float(root_mean_squared_error(true, said)),
            "largest_error": float(np.abs(said - true).max()),
        }
        if len(true) > 1:  # of one sample it is not defined
            figures["r2"] = float(r2_score(true, said))
        low, high = interval(resampled(scores))
        shown = np.linspace(0, said.size - 1, min(DOTS, said.size)).astype(int)
        dots = true.ravel()[shown].tolist(), said.ravel()[shown].tolist()
        return Evaluation(
            headline=f"mean absolute error {error:.4g} on {len(true):,} held-out samples",
            figures=figures,
            between=(-high, -low),
            score=SCORE,
            scores=scores,
            chart=Chart("Prediction", "true", "said", {"samples": dots}, dots=True),
            worst=[
                Worst(int(n), _listed(true[n]), _listed(said[n]), f"{-scores[n]:.4g} apart")
                for n in np.argsort(scores, kind="stable")[:WORST]
            ],
        )


def _listed(numbers: np.ndarray) -> str:
    more = ", ..." if len(numbers) > 4 else ""
    return ", ".join(f"{number:.4g}" for number in numbers[:4]) + more
