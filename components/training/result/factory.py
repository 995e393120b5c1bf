"""Build a network with the user's own code."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.components.training.result.trained import NotLoadable

if TYPE_CHECKING:
    import torch


def build(factory: Any, arguments: Any, code: Path, entrypoint: str) -> "torch.nn.Module":
    """Imports a factory from the code, or from beside its entrypoint, and calls it."""
    with _importable(code, entrypoint):
        try:
            module, _, name = factory.partition(":")
            return getattr(importlib.import_module(module), name)(**arguments)
        except (Exception, SystemExit) as error:  # a script may end itself when it is imported
            raise NotLoadable(
                f"model_factory {factory!r} could not build the model: "
                f"{type(error).__name__}: {error}"
            ) from None


@contextmanager
def _importable(code: Path, entrypoint: str) -> Iterator[None]:
    """Makes the training code's modules importable, as they are for the training program."""
    program = code / entrypoint
    path, arguments = sys.path[:], sys.argv[:]
    sys.path[:0] = [str(program.parent), str(code)]
    sys.argv[:] = [str(program)]
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = path, arguments
