"""Export a trained model to files that run without its training code, and prove them right."""

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trireme.data import base_model
from trireme.data.holdout import for_evaluation
from trireme.errors import StepFailed
from trireme.evaluation import report as page
from trireme.evaluation.custom import FOUND, inputs_of
from trireme.evaluation.held_out import TEST, held_out, predict_in_batches
from trireme.evaluation.samples import has_split
from trireme.evaluation.source import Source
from trireme.exporting import packaging, pytorch, tensorflow
from trireme.exporting.agreement import TOLERANCES, largest_difference
from trireme.exporting.isolated import Reloaded, isolated
from trireme.files.workspace import written_whole
from trireme.models.trained import NotLoadable, TrainedModel
from trireme.packages import use
from trireme.pages import REPORT
from trireme.tracking import journal
from trireme.tracking.registry import CHALLENGER, CHAMPION

SAMPLES = 64  # real samples that every exported file is compared on
ANSWER_LIMIT = 1 << 26  # numbers in their answers; a language model's are many
SHORTEST = 2  # tokens; torch.export takes a length of one for a constant

_WRITERS = {"pytorch": pytorch.write, "tensorflow": tensorflow.write}
_MODULES = {"pytorch": "torch.export.pt2_archive", "tensorflow": "tensorflow"}
"""What loads the framework's own form; torch alone is not half of what it needs."""

_FORKED = ("pytorch",)
"""Frameworks whose process that loads files back can be a fork: torch has no threads until it
computes, TensorFlow has."""


class Exported(NamedTuple):
    """A model in forms that run without its training code.

    Attributes:
        path: The directory that holds ``model.onnx``, and ``model.pt2`` of torch.export or the
            SavedModel ``saved_model``.
        differences: By file, the largest absolute difference of its outputs from the model's.
    """

    path: Path
    differences: dict[str, float]
    samples: int


def export(
    source: Source,
    data: Path,
    name: str,
    destination: Path,
    promote: bool = False,
    champion: str = "",
    inputs: np.ndarray | None = None,
) -> Exported:
    """Writes a model as ONNX and in its framework's own form, with a dynamic batch size.

    Of sequences, such as a language model's tokens, the length is dynamic too, if the model takes
    other lengths and can be written so. Each file is loaded back in a process without the training
    code, and has to answer there as the trained model does on real held-out samples.

    Args:
        champion: The champion that it was better than; empty if there was none.
        inputs: Real inputs, where the dataset has none in a form that is known.
    """
    is_shared = source.framework in _FORKED
    with isolated(_MODULES[source.framework], is_shared=is_shared) as reloaded:
        trained = source.load()
        inputs = held_out(data).inputs if inputs is None else inputs
        if inputs.dtype == np.float64 and trained.precision != "float64":
            inputs = inputs.astype(np.float32)  # what NumPy makes of numbers, and no network takes
        inputs = _samples(trained, inputs)
        sequences = inputs.ndim == 2 and inputs.dtype.kind in "iu"
        any_length = sequences and _takes_shorter(trained, inputs)
        with written_whole(destination) as partial:
            try:
                differences, outputs = _write(trained, inputs, any_length, partial, reloaded)
            except StepFailed:
                if not any_length:
                    raise
                any_length = False
                differences, outputs = _write(trained, inputs, any_length, partial, reloaded)
            np.savez(partial / "sample.npz", inputs=inputs[:2], outputs=outputs[:2])
    journal.log_params(
        {f"tolerance_{_form(file)}": _tolerance(file, trained) for file in differences}
        | {"samples_compared": len(inputs)}
        | ({"sequence_length": "any" if any_length else inputs.shape[1]} if sequences else {})
    )
    journal.log_metrics({f"difference_{_form(file)}": value for file, value in differences.items()})
    journal.log_artifact(destination, "exported")
    journal.log_model(
        destination / "model.onnx",
        name,
        destination / "sample.npz",
        tags={"weights": str(trained.weights), "framework": trained.framework},
        promote=promote,
        champion=champion,
    )
    largest = max(differences.values())
    journal.summarize(f"{' and '.join(differences)}, largest difference {largest:.1e}")
    return Exported(destination, differences, len(inputs))


def _samples(trained: TrainedModel, inputs: np.ndarray) -> np.ndarray:
    """Returns as many samples as are compared, given that their answers have to fit into memory."""
    numbers = predict_in_batches(trained.predict, inputs[:1]).size
    most = min(SAMPLES, trained.largest_batch or SAMPLES)
    return inputs[: max(2, min(most, ANSWER_LIMIT // numbers))]


def _takes_shorter(trained: TrainedModel, inputs: np.ndarray) -> bool:
    if inputs.shape[1] <= SHORTEST:
        return False
    try:
        trained.predict(_shortened(inputs[:1]))
    except Exception:  # whatever a network says of it
        return False
    return True


def _shortened(sequences: np.ndarray) -> np.ndarray:
    return sequences[:, : max(SHORTEST, sequences.shape[1] // 2)]


def _write(
    trained: TrainedModel,
    inputs: np.ndarray,
    any_length: bool,
    directory: Path,
    reloaded: Reloaded,
) -> tuple[dict[str, float], np.ndarray]:
    """Writes every form; returns each one's difference, and the trained model's answers."""
    batches = [inputs, inputs[:1]] + ([_shortened(inputs)] if any_length else [])
    expected = [predict_in_batches(trained.predict, batch) for batch in batches]
    differences = {}
    for file in _WRITERS[trained.framework](trained, inputs, any_length, directory):
        tolerance = _tolerance(file.name, trained)
        differences[file.name] = max(
            largest_difference(file.name, outputs, right, tolerance)
            for outputs, right in zip(reloaded(file, batches), expected, strict=True)
        )
    return differences, expected[0]


def _tolerance(file: str, trained: TrainedModel) -> float:
    return TOLERANCES[Path(file).suffix][trained.precision]


def _form(file: str) -> str:
    return file.rpartition(".")[-1]


class Outputs(NamedTuple):
    """What the export step hands on."""

    path: str
    difference: float


def export_and_report(
    *,
    model: str,
    data: str,
    code: str,
    entrypoint: str,
    model_factory: str,
    model_name: str,
    promote: bool,
    champion: str,
    workspace: str,
    exported: Any,
    report: Any,
) -> Outputs:
    """Exports a model, and writes the step's artifacts."""
    folder = Path(workspace)
    report_file, destination = folder / REPORT, folder / "exported"
    registered = f"{CHAMPION if promote else CHALLENGER} of {model_name}"
    start = base_model.folder(folder)
    source = Source(Path(model), Path(code), entrypoint, model_factory, start)
    data_folder = for_evaluation(Path(data))
    inputs, has_program = inputs_of(folder / FOUND), (folder / FOUND).is_dir()
    has_samples = inputs is not None or has_split(data_folder, TEST)
    largest = 0.0
    try:
        if has_program and not has_samples:
            raise NotLoadable("it answers inputs that only its program knows")
        if inputs is not None and inputs.dtype.kind in "UV":
            raise NotLoadable("it takes texts or rows of a table")
        result = export(source, data_folder, model_name, destination, promote, champion, inputs)
        largest = max(result.differences.values())
        files = [
            page.ExportedFile(name, _size_of(destination / name), difference)
            for name, difference in result.differences.items()
        ]
        page.add_exported(report_file, files, result.samples, registered)
    except NotLoadable as error:
        if not has_program:
            raise
        package = packaging.package(source, inputs, destination, str(error))
        if packages := use.folder(folder):
            shutil.copy(Path(packages, journal.PACKAGES), destination)  # which its server installs
        tags = {"form": package.flavor or "files"}
        journal.log_artifact(destination, "exported")
        journal.log_package(destination, model_name, tags=tags, promote=promote, champion=champion)
        journal.summarize(package.words)
        largest = package.difference
        page.add_package(report_file, package.words, _size_of(destination), registered)
    shutil.rmtree(exported.path, ignore_errors=True)  # of an attempt for which there was no room
    shutil.copytree(destination, exported.path)
    exported.metadata.update(registered_model=model_name, largest_difference=largest)
    page.hand_over(report_file, Path(report.path))
    return Outputs(str(destination), largest)


def _size_of(path: Path) -> int:
    """Returns how many bytes a file, or what is in a folder, has."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
