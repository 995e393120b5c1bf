"""Measures of a language model: how well it foretells the next token."""

import math

import numpy as np

from trireme.evaluation.bootstrap import interval, resampled
from trireme.evaluation.figures import (
    NO_NUMBERS,
    WORST,
    Chart,
    Evaluation,
    Score,
    Worst,
    are_probabilities,
)
from trireme.evaluation.held_out import row_of
from trireme.models.trained import NotLoadable

SHOWN = 60  # bytes of a text
TEXT = 256  # tokens that a model of bytes has

SCORE = Score("loss per token", -1, "nats")


class Language:
    """Takes in a language model's outputs, batch by batch; keeps a number or two per sample."""

    score = SCORE

    def __init__(self) -> None:
        self._losses: list[np.ndarray] = []
        self._tokens: list[np.ndarray] = []
        self._right = 0
        self._by_position = np.zeros((2, 0))
        self._labels: list[np.ndarray] = []
        self._are_texts = False

    def add(self, outputs: np.ndarray, labels: np.ndarray) -> None:
        """Takes in a batch.

        Args:
            outputs: Logits or probabilities, of shape (samples, length, tokens).
            labels: The next token at each position, of shape (samples, length); negative where
                none is asked for, as PyTorch's ``ignore_index`` is.
        """
        if outputs.shape[:-1] != labels.shape or labels.ndim != 2:
            raise NotLoadable(
                f"the model's outputs have the shape {outputs.shape}, not (samples, length, "
                f"tokens) for labels y of shape {labels.shape}"
            )
        if labels.max() >= outputs.shape[-1]:
            raise NotLoadable(
                f"the labels y hold the token {labels.max()}, but the model has "
                f"{outputs.shape[-1]} tokens"
            )
        is_counted = labels >= 0
        true = np.where(is_counted, labels, 0)[..., None].astype(np.intp)
        log_likelihoods = np.take_along_axis(_logarithms(outputs.astype(np.float32)), true, -1)[
            ..., 0
        ]
        losses = np.where(is_counted, -log_likelihoods, 0)
        if not np.isfinite(losses).all():
            raise NotLoadable(*NO_NUMBERS)
        self._losses.append(losses.sum(1, dtype=float))
        self._tokens.append(is_counted.sum(1))
        self._right += int(((outputs.argmax(-1) == labels) & is_counted).sum())
        self._add_positions(np.stack([losses.sum(0, dtype=float), is_counted.sum(0)]))
        self._labels.append(labels)
        self._are_texts = outputs.shape[-1] == TEXT

    def _add_positions(self, sums: np.ndarray) -> None:
        longer = max(sums.shape[1], self._by_position.shape[1])
        both = [
            np.pad(array, ((0, 0), (0, longer - array.shape[1])))
            for array in (self._by_position, sums)
        ]
        self._by_position = both[0] + both[1]

    def scores(self) -> np.ndarray:
        """Returns for each sample its share in the loss per token, below zero."""
        losses, tokens = np.concatenate(self._losses), np.concatenate(self._tokens)
        # Divided so that their mean is the loss of all tokens, also where samples differ in length.
        return -losses / max(tokens.mean(), 1e-9)

    def evaluation(self) -> Evaluation:
        """Returns what all batches together say."""
        losses, tokens = np.concatenate(self._losses), np.concatenate(self._tokens)
        count = int(tokens.sum())
        if not count:
            raise NotLoadable("the labels y hold no token to predict")
        loss = float(losses.sum()) / count
        # How much more or less than usual each sample loses for its length: that samples differ in
        # length says nothing of the model.
        apart = (losses - loss * tokens) / tokens.mean()
        low, high = (loss + end for end in interval(resampled(apart)))
        figures = {
            "perplexity": _perplexity(loss),
            "loss": loss,
            "bits_per_token": loss / math.log(2),
            "token_accuracy": self._right / count,
        }
        return Evaluation(
            headline=f"perplexity {figures['perplexity']:.4g} on {count:,} held-out tokens",
            figures=figures,
            between=(_perplexity(low), _perplexity(high)),
            score=SCORE,
            scores=self.scores(),
            chart=self._chart(),
            worst=self._worst(losses / np.maximum(tokens, 1)),
        )

    def _chart(self) -> Chart:
        sums, counts = self._by_position
        means = (sums / np.maximum(counts, 1))[counts > 0]
        line = np.flatnonzero(counts).astype(float).tolist(), means.tolist()
        return Chart("Loss by position", "position", "nats per token", {"loss": line})

    def _worst(self, losses: np.ndarray) -> list[Worst]:
        worst = np.argsort(-losses, kind="stable")[:WORST]
        return [
            Worst(int(n), self._text(int(n)), "", f"{losses[n]:.3g} nats per token") for n in worst
        ]

    def _text(self, sample: int) -> str:
        if not self._are_texts:
            return ""
        row = row_of(self._labels, sample)
        return bytes(row[row >= 0][:SHOWN].astype(np.uint8)).decode(errors="backslashreplace")


def _logarithms(outputs: np.ndarray) -> np.ndarray:
    """Returns the logarithms of the tokens' probabilities."""
    from scipy.special import log_softmax

    if are_probabilities(outputs):
        return np.log(np.maximum(outputs, np.finfo(np.float32).tiny))
    return log_softmax(outputs, -1)


def _perplexity(loss: float) -> float:
    return math.exp(min(loss, 700.0))  # beyond that there is no float
