"""Models that a PyTorch program left."""

import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trireme.data.forms import PROGRAM
from trireme.models import program_file
from trireme.models.factory import build
from trireme.models.trained import NotLoadable, TrainedModel, no_tensor, read

if TYPE_CHECKING:
    import torch

WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def load_program(file: Path) -> TrainedModel:
    """Loads a program that ``torch.export.save`` wrote."""
    program = read(file, "an exported program", load_exported)
    return as_trained(program.module(), _largest_batch(program))


def load_exported(file: Path) -> "torch.export.ExportedProgram":
    """Loads a program of tensors and operations only."""
    import torch

    program_file.check(file)
    with _weights_only():
        try:
            return torch.export.load(file)
        except pickle.UnpicklingError:
            raise ValueError("pickled objects are never loaded") from None


def load_weights(file: Path, code: Path, entrypoint: str, factory: str) -> TrainedModel:
    """Builds a network, with the factory of the file or the given one, and loads its weights."""
    saved = read(file, "a file of weights", _load_tensors)
    arguments: Any = {}
    state = saved
    requested = factory
    if isinstance(saved, Mapping) and {"factory", "state_dict"} <= set(saved):
        factory, arguments = saved["factory"], saved.get("arguments", {})
        state = saved["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise NotLoadable(f"{file.name} holds a {type(state).__name__}, not a state dictionary")
    if not factory:
        raise NotLoadable(
            f"{file.name} holds weights only; give model_factory=module:callable, which builds "
            "the network, or let the program save with torch.export.save to model.pt2",
            f"or give {PROGRAM}",
        )
    network = build(factory, arguments, code, entrypoint, is_given=factory == requested)
    try:
        network.load_state_dict(_unwrapped(state, network))
    except (RuntimeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise NotLoadable(f"{file.name} does not fit {factory}: {reason}") from None
    return as_trained(in_float32(network.eval()))


def _largest_batch(program: "torch.export.ExportedProgram") -> int | None:
    """Returns the most samples that a program was exported for; None for any number."""
    inputs = program.graph_signature.user_inputs
    tensors = [node.meta["val"] for node in program.graph.nodes if node.name in inputs]
    shape: Sequence[object] = getattr(tensors[0], "shape", ()) if tensors else ()
    first = str(shape[0]) if shape else ""
    most = [
        limits.upper for size, limits in program.range_constraints.items() if str(size) == first
    ]
    return int(most[0]) if most and most[0].is_Integer else None


def as_trained(network: "torch.nn.Module", largest_batch: int | None = None) -> TrainedModel:
    """Returns a network as the later steps see it."""
    import torch

    def predict(inputs: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            parts = torch.from_numpy(inputs).split(largest_batch or max(len(inputs), 1))
            outputs = [network(part) for part in parts]
        for output in outputs:
            if not isinstance(output, torch.Tensor):
                raise no_tensor(output)
        return torch.cat(outputs).numpy() if len(outputs) > 1 else outputs[0].numpy()

    weights = sum(parameter.numel() for parameter in network.parameters())
    return TrainedModel("pytorch", network, predict, weights, _precision(network), largest_batch)


def in_float32(network: "torch.nn.Module") -> "torch.nn.Module":
    """Returns a network that takes and returns float32 where it computes with something else."""
    # A dataset is float32 whatever the network is; NumPy, ONNX Runtime and JSON lack bfloat16.
    import torch

    number = getattr(torch, _precision(network))
    if number == torch.float32:
        return network

    class Converting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            if inputs.is_floating_point():
                inputs = inputs.to(_first_number(self.network))
            output = self.network(inputs)
            is_small = isinstance(output, torch.Tensor) and output.dtype.itemsize < 4
            return output.float() if is_small and output.is_floating_point() else output

    return Converting().eval()


def _first_number(network: "torch.nn.Module") -> "torch.dtype":
    return next(value.dtype for value in network.parameters() if value.is_floating_point())


def _precision(network: "torch.nn.Module") -> str:
    """Returns the name of the coarsest type of number among the weights."""
    import torch

    types = {value.dtype for value in network.parameters() if value.is_floating_point()}
    known = types & {torch.float64, torch.float32, torch.float16, torch.bfloat16}
    coarsest = max(known or {torch.float32}, key=lambda number: torch.finfo(number).eps)
    return str(coarsest).removeprefix("torch.")


@contextmanager
def _weights_only() -> Iterator[None]:
    """Keeps every torch.load from unpickling, whatever it is called with."""
    # https://docs.pytorch.org/docs/stable/notes/serialization.html#environment-variables
    before = os.environ.get(WEIGHTS_ONLY)
    os.environ[WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[WEIGHTS_ONLY]
        else:
            os.environ[WEIGHTS_ONLY] = before


def _load_tensors(file: Path) -> Any:
    import torch

    if file.suffix == ".safetensors":
        return import_module("safetensors.torch").load_file(file)  # of the run's packages
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise ValueError(
            "pickled objects are never loaded, let the program save the state_dict"
        ) from None
    except RuntimeError as error:
        if "TorchScript" not in str(error):
            raise
        raise ValueError(
            "it is TorchScript, which is not loaded; let the program save the state_dict, or with "
            "torch.export.save to model.pt2"
        ) from None


def _unwrapped(state: Mapping[str, Any], network: "torch.nn.Module") -> dict[str, Any]:
    """Returns a state dictionary without the ``module.`` of a data-parallel wrapper."""
    wrapped = bool(state) and all(name.startswith("module.") for name in state)
    if not wrapped or set(state) == set(network.state_dict()):
        return dict(state)
    return {name.removeprefix("module."): value for name, value in state.items()}
