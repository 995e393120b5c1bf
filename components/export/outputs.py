"""What the export step hands on, shows in the Kubeflow UI and keeps in MLflow."""

import shutil
from pathlib import Path
from typing import Any, NamedTuple

from trireme.components.errors import StepFailed
from trireme.components.evaluation import report as page
from trireme.components.evaluation.custom import FOUND, inputs_of
from trireme.components.evaluation.held_out import TEST
from trireme.components.export.export import Exported, export
from trireme.components.tracking.registry import CHALLENGER, CHAMPION
from trireme.components.trainers.pytorch import splits


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
    place = Path(workspace)
    inputs = inputs_of(place / FOUND)
    if inputs is None and (place / FOUND).is_dir() and not splits.is_there(Path(data), TEST):
        raise StepFailed(
            "there is nothing to compare exported files on: the dataset has no held-out samples in "
            "a form that is known, and the program that evaluates left no inputs.npy"
        )
    result = export(
        Path(model),
        Path(data),
        Path(code),
        entrypoint,
        model_factory,
        model_name,
        place / "exported",
        promote,
        champion,
        inputs,
    )
    largest = max(result.differences.values())
    shutil.copytree(result.path, exported.path)
    exported.metadata.update(registered_model=model_name, largest_difference=largest)
    alias = CHAMPION if promote else CHALLENGER
    _report(place, result, f"{alias} of {model_name}", report)
    return Outputs(str(result.path), largest)


def _report(workspace: Path, result: Exported, registered: str, artifact: Any) -> None:
    files = [
        page.ExportedFile(name, _size_of(result.path / name), difference)
        for name, difference in result.differences.items()
    ]
    kept = workspace / page.NAME
    page.add_exported(kept, files, result.samples, registered)
    page.hand_over(kept, Path(artifact.path))


def _size_of(path: Path) -> int:
    """Returns how many bytes a file, or what is in a folder, has."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())
