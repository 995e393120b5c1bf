"""What a trained model is loaded from."""

from pathlib import Path
from typing import NamedTuple

from trireme.components.training.result.load import load_model
from trireme.components.training.result.trained import TrainedModel


class Source(NamedTuple):
    """What was MODEL_DIR, and what its network is built by.

    Attributes:
        code: The training code's repository.
        entrypoint: The training program in it.
        factory: ``module:callable`` that builds the network, where the model needs it.
    """

    model: Path
    code: Path
    entrypoint: str = ""
    factory: str = ""

    def load(self) -> TrainedModel:
        """Returns the model, or raises ``NotLoadable``."""
        return load_model(*self)
