"""The source that a trained model is loaded from."""

from pathlib import Path
from typing import NamedTuple

from trireme.models.load import framework_of, load_model
from trireme.models.trained import NotLoadable, TrainedModel


class Source(NamedTuple):
    """A MODEL_DIR, and the code, entrypoint and ``module:callable`` that build its network.

    Attributes:
        base_model: What its training started from; empty for nothing.
    """

    model: Path
    code: Path
    entrypoint: str = ""
    factory: str = ""
    base_model: str = ""

    def check(self) -> None:
        """Raises ``NotLoadable`` where the training program has left nothing."""
        if not any(path.is_file() for path in self.model.rglob("*")):
            raise NotLoadable(
                "the training program left nothing in MODEL_DIR; have it save there, or copy what "
                "it has saved elsewhere",
                way_out="",
            )

    @property
    def framework(self) -> str:
        """What the model is of, by its files; raises ``NotLoadable`` like ``load``."""
        return framework_of(self.model)

    def load(self) -> TrainedModel:
        """Returns the model, or raises ``NotLoadable``."""
        return load_model(self.model, self.code, self.entrypoint, self.factory)
