"""A registered model of MLflow, as the folder that ``save_pretrained`` would leave, or as it is."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

from trireme.data.description import Dataset
from trireme.data.listing import Entry
from trireme.data.sources import PIECE, SourceFailed
from trireme.errors import InputError, TriremeError
from trireme.tracking import journal
from trireme.tracking.model_versions import find
from trireme.tracking.store import reason_of

WHOLE = "model/config.json"
"""What a model of transformers has in MLflow's package."""

PARTS = ("model/", "components/tokenizer/")
"""Where MLflow keeps what transformers loads as one folder; the first before the second."""


class RegisteredModel:
    """The files of a model version.

    An alias is resolved once. Files of a server are brought whole, to a temporary folder.
    """

    readers = 2

    def __init__(self, dataset: Dataset) -> None:
        self._uri, self._purpose = dataset.uri, dataset.purpose
        try:
            self._version = find(dataset.uri.removeprefix("models:/"))
        except InputError as error:
            raise InputError(f"dataset_uri {dataset.uri!r}: {error}") from None
        self._paths: dict[str, str] = {}
        self._brought: dict[str, Path] = {}
        self._lock = Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="trireme-")

    def list(self) -> list[Entry]:
        """Returns all files; see ``Source``."""
        sizes = dict(self._files(""))
        self._paths = {path: path for path in sizes}
        if WHOLE in sizes:
            parts = [path for path in sizes if path.startswith(PARTS)]
            named = {path: path.removeprefix(PARTS[0]).removeprefix(PARTS[1]) for path in parts}
            ordered = sorted(parts, key=lambda path: not path.startswith(PARTS[1]))
            self._paths = {named[path]: path for path in ordered}
        tags = {"version": self._version.uri, "run": self._version.run_id}
        if license := self._version.tags.get("base_model.license", ""):
            tags["license"] = license
        journal.log_tags({f"{self._purpose}.{name}": value for name, value in tags.items()})
        of_store = f"{self._version.uri} {self._version.run_id}"  # another has such a version, too
        return [Entry(name, sizes[path], of_store) for name, path in self._paths.items()]

    def _files(self, folder: str) -> Iterator[tuple[str, int]]:
        import mlflow

        try:
            listed = mlflow.artifacts.list_artifacts(f"{self._version.uri}/{folder}".rstrip("/"))
        except Exception as error:
            raise self._unreadable(error) from None
        for item in listed:
            if item.is_dir:
                yield from self._files(item.path)
            else:
                yield item.path, int(item.file_size or 0)

    def read(self, entry: Entry, start: int, length: int) -> Iterator[bytes]:
        """Reads a part of a file; see ``Source``."""
        end = start + length
        with self._file(self._paths[entry.name]).open("rb") as opened:
            opened.seek(start)
            while start < end and (data := opened.read(min(PIECE, end - start))):
                yield data
                start += len(data)

    def _file(self, path: str) -> Path:
        """Returns a file here; one of a server is brought once."""
        import mlflow

        with self._lock:
            if path not in self._brought:
                uri = f"{self._version.uri}/{path}"
                try:
                    found = mlflow.artifacts.download_artifacts(uri, dst_path=self._folder.name)
                except Exception as error:
                    raise self._unreadable(error) from None
                self._brought[path] = Path(found)
            return self._brought[path]

    def _unreadable(self, error: Exception) -> TriremeError:
        why = reason_of(error)
        return SourceFailed(f"dataset_uri {self._uri!r}: {self._version} cannot be read: {why}")
