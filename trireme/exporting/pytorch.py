"""Write a PyTorch network as a torch.export program and as ONNX."""

import copy
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trireme.errors import StepFailed, first_line
from trireme.models.trained import TrainedModel

if TYPE_CHECKING:
    import torch

INLINE_LIMIT = 1 << 30  # bytes of weights that fit into the ONNX file itself (protobuf: 2 GiB)


def write(
    trained: TrainedModel, inputs: np.ndarray, any_length: bool, directory: Path
) -> Iterator[Path]:
    """Writes ``model.pt2`` and ``model.onnx``, with a dynamic batch size.

    A network that takes no more than some samples at a time is written with that limit.
    """
    import torch

    limit = trained.largest_batch
    program = _program(trained.network, inputs, any_length, limit)
    torch.export.save(program, directory / "model.pt2")
    yield directory / "model.pt2"
    if trained.precision == "bfloat16":  # ONNX Runtime has hardly an operation for it on a CPU
        program = _program(copy.deepcopy(trained.network).float(), inputs, any_length, limit)
    _write_onnx(program, directory / "model.onnx")
    yield directory / "model.onnx"


def _program(
    network: "torch.nn.Module", inputs: np.ndarray, any_length: bool, largest_batch: int | None
) -> "torch.export.ExportedProgram":
    import torch

    dynamic = {0: torch.export.Dim("batch", min=1, max=largest_batch)}
    if any_length:
        # Unlike a named one it takes the limits that it finds, such as a table of positions.
        dynamic[1] = torch.export.Dim.DYNAMIC
    try:
        # Two samples: a batch of one would be taken for a constant.
        example = (torch.from_numpy(inputs[[0, -1]]),)
        return torch.export.export(network, example, dynamic_shapes=(dynamic,))
    except Exception as error:
        raise StepFailed(f"torch.export cannot export the model: {first_line(error)}") from None


def _write_onnx(program: "torch.export.ExportedProgram", file: Path) -> None:
    import torch

    # It warns of every package that is not there for it to do more with.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    size = sum(value.numel() * value.element_size() for value in program.state_dict.values())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                program,
                f=file,
                dynamo=True,
                input_names=["input"],
                output_names=["output"],
                external_data=size > INLINE_LIMIT,
                verbose=False,
            )
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__:  # what wraps it says how to debug PyTorch's exporter
            cause = cause.__cause__
        raise StepFailed(f"the model cannot be written as ONNX: {first_line(cause)}") from None
