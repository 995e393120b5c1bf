"""Models that a PyTorch program left."""

import importlib
import pickle
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from components.training.result.trained import NotLoadable, TrainedModel, read

if TYPE_CHECKING:
    import torch

_OURS = re.compile(r"(components|pipelines)(\.|$)")


def load_program(file: Path) -> TrainedModel:
    """Loads a program that ``torch.export.save`` wrote.

    Args:
        file: The ``.pt2`` file.

    Raises:
        NotLoadable: It is something else.
    """
    import torch

    return as_trained(read(file, "an exported program", torch.export.load).module())


def load_weights(file: Path, code: Path, entrypoint: str, factory: str) -> TrainedModel:
    """Builds a network and gives it the weights in a file that ``torch.save`` wrote.

    Args:
        file: The file of weights.
        code: The training code's repository.
        entrypoint: The training program in it; modules beside it can be imported.
        factory: ``module:callable`` that builds the network, where the file does not name one.

    Raises:
        NotLoadable: The file holds something else, or does not fit the network.
    """
    saved = read(file, "a file of weights", _load_tensors)
    arguments: Any = {}
    state = saved
    if isinstance(saved, Mapping) and {"factory", "state_dict"} <= set(saved):
        factory, arguments = saved["factory"], saved.get("arguments", {})
        state = saved["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise NotLoadable(f"{file.name} holds a {type(state).__name__}, not a state dictionary")
    if not factory:
        raise NotLoadable(
            f"{file.name} holds weights only; give model_factory=module:callable, which builds "
            "the network, or let the program save with torch.export.save to model.pt2"
        )
    with _importable(code, entrypoint):
        network = _call(factory, arguments)
    try:
        network.load_state_dict(_unwrapped(state, network))
    except (RuntimeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise NotLoadable(f"{file.name} does not fit {factory}: {reason}") from None
    return as_trained(network.eval())


def as_trained(network: "torch.nn.Module") -> TrainedModel:
    """Returns a network as the later steps see it.

    Args:
        network: The network, in evaluation mode.
    """
    import torch

    def answer(inputs: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            return network(torch.from_numpy(inputs)).numpy()

    weights = sum(parameter.numel() for parameter in network.parameters())
    return TrainedModel("pytorch", network, answer, weights)


def _load_tensors(file: Path) -> Any:
    import torch

    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise ValueError(
            "pickled objects are never loaded, let the program save the state_dict"
        ) from None


def _unwrapped(state: Mapping[str, Any], network: "torch.nn.Module") -> dict[str, Any]:
    """Returns a state dictionary without the ``module.`` of a data-parallel wrapper."""
    wrapped = bool(state) and all(name.startswith("module.") for name in state)
    if not wrapped or set(state) == set(network.state_dict()):
        return dict(state)
    return {name.removeprefix("module."): value for name, value in state.items()}


def _call(factory: Any, arguments: Any) -> "torch.nn.Module":
    try:
        module, _, name = factory.partition(":")
        return getattr(importlib.import_module(module), name)(**arguments)
    except (Exception, SystemExit) as error:  # a script may end itself when it is imported
        raise NotLoadable(
            f"model_factory {factory!r} could not build the model: {type(error).__name__}: {error}"
        ) from None


@contextmanager
def _importable(code: Path, entrypoint: str) -> Iterator[None]:
    """Makes the training code's modules importable, as they are for the training program.

    Ours step aside meanwhile: the code may well have a package called ``components`` too.
    """
    program = code / entrypoint
    path, arguments = sys.path[:], sys.argv[:]
    ours = {name: module for name, module in sys.modules.items() if _OURS.match(name)}
    for name in ours:
        del sys.modules[name]
    sys.path[:0] = [str(program.parent), str(code)]
    sys.argv[:] = [str(program)]
    try:
        yield
    finally:
        sys.path[:], sys.argv[:] = path, arguments
        for name in [name for name in sys.modules if _OURS.match(name)]:
            del sys.modules[name]
        sys.modules.update(ours)
