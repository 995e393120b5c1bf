"""Evaluating a classifier against a bare loop: load, predict in batches, count what is right.

The reference network on 4,000 images of 28 by 28, which is the size of MNIST's, and on 100,000 of
8 by 8, by itself and against a champion, which is an ONNX file. The two take turns in one process;
printed are medians and their ratio. What evaluation costs besides, ROC curves above all, is the
same for each sample whatever the network is: small images show that, larger ones what is usual.

    python benchmarks/evaluation.py [PAIRS]
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from pipeline import row

from trireme.evaluation.evaluate import evaluate
from trireme.evaluation.source import Source
from trireme.tracking.registry import Champion

SIZES = {28: 4_000, 8: 100_000}
"""Samples by their height and width."""

BATCH = 256
SHAPE = {"channels": 1, "classes": 10}
CODE = Path(__file__).resolve().parents[1] / "trainers"
sys.path.insert(0, str(CODE))

import pytorch_classifier as classifier  # noqa: E402


def make(directory: Path, size: int, samples: int) -> Champion:
    """Writes the dataset, the model and the champion."""
    (directory / "data").mkdir(parents=True)
    (directory / "model").mkdir()
    random = np.random.default_rng(0)
    images = random.random((samples, 1, size, size), np.float32)
    np.savez(directory / "data" / "test.npz", x=images, y=random.integers(0, 10, samples))
    torch.manual_seed(0)
    network = classifier.Classifier(**SHAPE).eval()
    save(network, directory / "model" / "model.pt")
    write_onnx(network, images[:2], directory / "champion.onnx")
    return Champion("1", directory / "champion.onnx", {})


def save(network: torch.nn.Module, file: Path) -> None:
    """Writes a network as the reference trainer does."""
    saved = {"factory": "pytorch_classifier:Classifier", "arguments": SHAPE}
    torch.save(saved | {"state_dict": network.state_dict()}, file)


def write_onnx(network: torch.nn.Module, images: np.ndarray, file: Path) -> None:
    """Writes a network as ONNX, for batches of any size."""
    torch.onnx.export(
        network,
        (torch.from_numpy(images),),
        file,
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        external_data=False,
        verbose=False,
    )


def ours(directory: Path, champion: Champion | None) -> None:
    """Evaluates the model as the step does."""
    data, model = directory / "data", directory / "model"
    assert evaluate(
        Source(model, CODE, "pytorch_classifier.py"), data, 0.0, champion=champion
    ).evaluation


def by_hand(directory: Path, champion: Champion | None) -> None:
    """Loads what the step loads, and counts."""
    with np.load(directory / "data" / "test.npz") as arrays:
        images, labels = arrays["x"], arrays["y"]
    saved = torch.load(directory / "model" / "model.pt", weights_only=True)
    network = classifier.Classifier(**saved["arguments"]).eval()
    network.load_state_dict(saved["state_dict"])
    with torch.inference_mode():
        count(lambda batch: network(torch.from_numpy(batch)).numpy(), images, labels)
    if champion:
        session = onnxruntime.InferenceSession(champion.onnx, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        count(lambda batch: session.run(None, {name: batch})[0], images, labels)


def count(answer: Callable[[np.ndarray], np.ndarray], images: np.ndarray, labels: np.ndarray):
    """Returns the accuracy, from a loop over batches."""
    right = 0
    for start in range(0, len(images), BATCH):
        batch = slice(start, start + BATCH)
        right += int((answer(images[batch]).argmax(1) == labels[batch]).sum())
    return right / len(labels)


def seconds(work: Callable[[], object]) -> float:
    """Returns how long something takes."""
    started = time.monotonic()
    work()
    return time.monotonic() - started


def in_turn(
    pairs: int, ours: Callable[[], float], theirs: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Measures two things in turn, each first as often as the other, after a first time of both."""
    ours(), theirs()
    both: tuple[list[float], list[float]] = ([], [])
    for number in range(pairs):
        for index in (0, 1) if number % 2 else (1, 0):
            both[index].append((ours, theirs)[index]())
    return both


def main() -> None:
    """Measures and prints the table."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        print(f"medians of {pairs} pairs; the goal is a ratio of 1.05")
        print(f"{'':<12} {'trireme':>9} {'by hand':>9}      ratio")
        for size, samples in SIZES.items():
            directory = Path(name, str(size))
            champion = make(directory, size, samples)
            print(f"{samples:,} samples of {size} by {size}")
            for title, against in (("alone", None), ("to champion", champion)):
                compare(title, directory, against, samples, pairs)


def compare(
    title: str, directory: Path, champion: Champion | None, samples: int, pairs: int
) -> None:
    """Measures both ways and prints two rows."""
    times = in_turn(
        pairs,
        lambda: seconds(lambda: ours(directory, champion)),
        lambda: seconds(lambda: by_hand(directory, champion)),
    )
    row(title, *times, "s")
    rates = [samples / statistics.median(durations) for durations in times]
    print(f"{'':<12} {rates[0]:9,.0f} {rates[1]:9,.0f} samples/s", flush=True)


if __name__ == "__main__":
    main()
