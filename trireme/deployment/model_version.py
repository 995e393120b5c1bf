"""The models of MLflow's registry: which one a person means, and its files."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trireme.errors import InputError, TriremeError
from trireme.tracking import store
from trireme.tracking.registry import CHAMPION
from trireme.tracking.store import public, reason_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.models import Model

_FORM = re.compile(r"([^/]+?)(?:@([^@/]+)|/([0-9]+))?")

FEW = 10  # names that an error lists


class ModelVersion(NamedTuple):
    """A version of a registered model.

    Attributes:
        note: Why it is this version, where the person should know.
    """

    name: str
    version: str
    run_id: str
    tags: dict[str, str]
    note: str = ""

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"

    @property
    def uri(self) -> str:
        """The version, as MLflow addresses it."""
        return f"models:/{self.name}/{self.version}"


class DownloadedModel(NamedTuple):
    """A version whose files are here."""

    model: ModelVersion
    files: Path
    described: "Model"

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(file.stat().st_size for file in self.files.rglob("*") if file.is_file())


def find(text: str) -> ModelVersion:
    """Returns the version that ``MODEL``, ``MODEL@ALIAS`` or ``MODEL/VERSION`` means.

    A bare ``MODEL`` is its champion, or its newest version where it has none.
    """
    form = _FORM.fullmatch(text)
    if not form:
        raise InputError(f"model {text!r}: must be MODEL, MODEL@ALIAS or MODEL/VERSION")
    name, alias, number = form.groups(default="")
    uri = store.use()
    with said_in_a_sentence(uri):
        from mlflow import MlflowClient

        return _found(MlflowClient(), text, name, alias, number)


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
            f"{_few(described.flavors)}, but the scoring server needs python_function"
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


@contextmanager
def said_in_a_sentence(uri: str) -> Iterator[None]:
    """Says in one sentence what MLflow answers that is no good."""
    try:
        yield
    except TriremeError:
        raise
    except Exception as error:  # a database's driver has exceptions of its own
        raise TriremeError(f"MLflow at {public(uri)} cannot be read: {reason_of(error)}") from None


def _found(client: "MlflowClient", text: str, name: str, alias: str, number: str) -> ModelVersion:
    aliases = _model(client, text, name).aliases
    versions = {str(version.version): version for version in _versions(client, name)}
    if not versions:
        raise InputError(f"model {text!r}: has no versions")
    if number and number not in versions:
        raise InputError(f"model {text!r}: has no version {number}; it has {_few(versions)}")
    if alias and alias not in aliases:
        raise InputError(f"model {text!r}: has no alias {alias!r}; it has {_few(aliases)}")
    newest = max(versions, key=int)
    chosen = number or str(aliases.get(alias or CHAMPION, newest))
    note = ""
    if not number and not alias and CHAMPION not in aliases:
        note = f"{name} has no {CHAMPION}; this is version {newest}, its newest"
    version = versions[chosen]
    return ModelVersion(name, chosen, version.run_id or "", dict(version.tags), note)


def _model(client: "MlflowClient", text: str, name: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_registered_model(name)
    except MlflowException as error:
        if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            raise
    there_are = _few(model.name for model in client.search_registered_models())
    raise InputError(
        f"model {text!r}: there is no registered model {name!r}; there are {there_are}"
    )


def _versions(client: "MlflowClient", name: str) -> Iterable[Any]:
    quote = '"' if "'" in name else "'"
    return client.search_model_versions(f"name = {quote}{name}{quote}")


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - FEW} more" if len(listed) > FEW else ""
    return ", ".join(listed[:FEW]) + more if listed else "none"
