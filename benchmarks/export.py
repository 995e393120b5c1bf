"""Exporting the reference classifier, files compared and all, against writing the files alone.

Written are a torch.export program and ONNX. The two take turns in one process; printed are medians
and their ratio, and what is left for loading the model, reading the files back in a process of
their own, and comparing them.

    python benchmarks/export.py [PAIRS]
"""

import shutil
import statistics
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from evaluation import CODE, SHAPE, classifier, in_turn, save, seconds
from pipeline import row

from trireme.evaluation.source import Source
from trireme.exporting.export import export


def make(directory: Path) -> None:
    """Writes the dataset and the model."""
    (directory / "data").mkdir()
    (directory / "model").mkdir()
    images = np.random.default_rng(0).random((256, 1, 8, 8), np.float32)
    np.savez(directory / "data" / "test.npz", x=images, y=np.zeros(256, dtype=int))
    torch.manual_seed(0)
    save(classifier.Classifier(**SHAPE).eval(), directory / "model" / "model.pt")


def ours(directory: Path) -> float:
    """Exports as the step does; returns the seconds."""
    to = directory / "exported"
    shutil.rmtree(to, ignore_errors=True)
    model, data = directory / "model", directory / "data"
    return seconds(
        lambda: export(Source(model, CODE, "pytorch_classifier.py"), data, "reference", to)
    )


def by_hand(directory: Path) -> float:
    """Writes both files; returns the seconds."""
    to = directory / "by-hand"
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    saved = torch.load(directory / "model" / "model.pt", weights_only=True)
    network = classifier.Classifier(**saved["arguments"]).eval()
    network.load_state_dict(saved["state_dict"])
    return seconds(lambda: write(network, to))


def write(network: torch.nn.Module, to: Path) -> None:
    """Writes a network as a torch.export program and as ONNX."""
    shapes = ({0: torch.export.Dim("batch", min=1)},)
    program = torch.export.export(network, (torch.zeros(2, 1, 8, 8),), dynamic_shapes=shapes)
    torch.export.save(program, to / "model.pt2")
    torch.onnx.export(
        program,
        f=to / "model.onnx",
        dynamo=True,
        input_names=["input"],
        output_names=["output"],
        external_data=False,
        verbose=False,
    )


def main() -> None:
    """Measures and prints the table."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        make(directory)
        times = in_turn(pairs, lambda: ours(directory), lambda: by_hand(directory))
    print(f"medians of {pairs} pairs\n{'':<12} {'trireme':>9} {'by hand':>9}      ratio")
    row("export", *times, "s")
    verification = [one - other for one, other in zip(*times, strict=True)]
    print(f"verification: median {statistics.median(verification):.2f} s")


if __name__ == "__main__":
    main()
