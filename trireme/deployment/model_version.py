"""The files of a registered model."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trireme.errors import InputError, TriremeError
from trireme.tracking.model_versions import ModelVersion, few, said_in_a_sentence
from trireme.tracking.store import reason_of

if TYPE_CHECKING:
    from mlflow.models import Model


class DownloadedModel(NamedTuple):
    """A version whose files are here."""

    model: ModelVersion
    files: Path
    described: "Model"

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(file.stat().st_size for file in self.files.rglob("*") if file.is_file())


def download(model: ModelVersion, directory: Path) -> DownloadedModel:
    """Copies a version's files to a directory."""
    import mlflow

    try:
        mlflow.artifacts.download_artifacts(model.uri, dst_path=str(directory))
        if (
            any(directory.iterdir())
            and not (directory / mlflow.models.model.MLMODEL_FILE_NAME).exists()
        ):
            raise InputError(
                f"{model} is plain files, which no scoring server can load; let the training "
                "program save an MLflow model, or name a factory module:_load_pyfunc"
            )
        described = mlflow.models.Model.load(str(directory))
    except TriremeError:
        raise
    except Exception as error:
        raise TriremeError(
            f"the files of {model} cannot be downloaded: {reason_of(error)}"
        ) from None
    if "python_function" not in described.flavors:
        raise InputError(
            f"model {model.name!r}: version {model.version} has the flavors "
            f"{few(described.flavors)}, but the scoring server needs python_function"
        )
    _refuse_elsewhere(model, directory, described)
    return DownloadedModel(model, directory, described)


def _refuse_elsewhere(model: ModelVersion, directory: Path, described: "Model") -> None:
    """Refuses a description by which files would be read that are not the model's."""
    example = described.saved_input_example_info or {}
    paths = [example.get(name) for name in ("artifact_path", "serving_input_path")]
    loaded = described.flavors["python_function"]
    paths += [loaded.get(name) for name in ("data", "model_path", "code")]
    paths += [described.flavors.get("onnx", {}).get("data")]
    for name in filter(None, paths):
        if not (directory / str(name)).resolve().is_relative_to(directory.resolve()):
            raise InputError(f"{model}: its MLmodel names {str(name)!r}, which is not in the model")


def storage_uri(model: ModelVersion) -> str:
    """Returns where a version's files are."""
    import mlflow

    with said_in_a_sentence(mlflow.get_tracking_uri()):
        client = mlflow.MlflowClient()
        return str(client.get_model_version_download_uri(model.name, model.version))


def example_file(model: ModelVersion) -> str:
    """Returns the name of the file that holds a request among a version's files; or nothing."""
    import mlflow

    with said_in_a_sentence(mlflow.get_tracking_uri()):
        example = mlflow.models.get_model_info(model.uri).saved_input_example_info or {}
    return str(example.get("serving_input_path", ""))
