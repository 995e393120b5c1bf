"""Names of figures, for a step without NumPy too."""

import re

_WORDS = {
    "macro_f1": "macro F1",
    "roc_auc": "ROC AUC",
    "mean_absolute_error": "mean absolute error",
    "rmse": "RMSE",
    "r2": "R²",
}


_GREATER_IS_BETTER = re.compile(
    r"(.*_)?(accuracy|acc|f1|auc|r2|precision|recall|bleu|map|iou|(samples|tokens)_per_second)"
)
_LESS_IS_BETTER = re.compile(
    r"(.*_)?(loss|error|error_rate|rmse|mse|mae|perplexity|bits_per_token)"
)


def better(name: str) -> int:
    """Returns 1 for a metric of which more is better, -1 for one of which less is, else 0."""
    plain = re.sub(r"\W", "_", name.partition(" of ")[0].lower())
    if _GREATER_IS_BETTER.fullmatch(plain):
        return 1
    return -1 if _LESS_IS_BETTER.fullmatch(plain) else 0


def words(name: str) -> str:
    """Returns a figure's name as people write it."""
    return _WORDS.get(name, name.replace("_", " "))
