"""Write a PyTorch network as a torch.export program and as ONNX."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from components.errors import StepFailed
from components.export.onnx_file import load_onnx
from components.training.result.pytorch import load_program
from components.training.result.trained import Answer, first_line

if TYPE_CHECKING:
    import torch

INLINE_LIMIT = 1 << 30  # bytes of weights that fit into the ONNX file itself (protobuf: 2 GiB)


def write(network: "torch.nn.Module", inputs: np.ndarray, directory: Path) -> dict[str, Answer]:
    """Writes ``model.pt2`` and ``model.onnx``, with a dynamic batch size.

    Args:
        network: The network, in evaluation mode.
        inputs: A few samples.
        directory: Where the files go.

    Returns:
        By file name, what the file answers when it is loaded back.

    Raises:
        StepFailed: The network cannot be written in one of these forms.
    """
    program = _export_program(network, inputs, directory / "model.pt2")
    _export_onnx(program, directory / "model.onnx")
    return {
        "model.pt2": load_program(directory / "model.pt2").answer,
        "model.onnx": load_onnx(directory / "model.onnx"),
    }


def _export_program(
    network: "torch.nn.Module", inputs: np.ndarray, file: Path
) -> "torch.export.ExportedProgram":
    import torch

    batch = torch.export.Dim("batch", min=1)
    try:
        # Two samples: a batch of one would be taken for a constant.
        example = (torch.from_numpy(inputs[:2]),)
        program = torch.export.export(network, example, dynamic_shapes=({0: batch},))
    except Exception as error:
        raise StepFailed(f"torch.export cannot export the model: {first_line(error)}") from None
    torch.export.save(program, file)
    return program


def _export_onnx(program: "torch.export.ExportedProgram", file: Path) -> None:
    import torch

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
        raise StepFailed(f"the model cannot be written as ONNX: {first_line(error)}") from None
