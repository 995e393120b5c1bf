"""Names of figures, for a step without NumPy too."""

_WORDS = {
    "macro_f1": "macro F1",
    "roc_auc": "ROC AUC",
    "mean_absolute_error": "mean absolute error",
    "rmse": "RMSE",
    "r2": "R²",
}


def words(name: str) -> str:
    """Returns a figure's name as people write it."""
    return _WORDS.get(name, name.replace("_", " "))
