"""What a trained model is loaded from."""

from pathlib import Path
from typing import NamedTuple

from trireme.components.training.result.load import load_model
from trireme.components.training.result.trained import TrainedModel


class Source(NamedTuple):
    """A MODEL_DIR, and the code, entrypoint and ``module:callable`` that build its network."""

    model: Path
    code: Path
    entrypoint: str = ""
    factory: str = ""

    def load(self) -> TrainedModel:
        """Returns the model, or raises ``NotLoadable``."""
        return load_model(*self)
