"""The model that training starts from: staged, recorded and fingerprinted as data is."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import yaml

from trireme.data import mounted
from trireme.data.description import Dataset, check_here, described
from trireme.data.sources import Fault, source_of
from trireme.data.staging import Staged, cache_of, stage
from trireme.errors import InputError, TriremeError
from trireme.tracking import journal

PLACE = "base_model"
"""Where it is in the run workspace."""


class BaseModel(Dataset):
    """The files of a model, described as those of a dataset are."""

    purpose: ClassVar[str] = "base_model"


def folder(workspace: Path) -> str:
    """Returns where a run has its base model; empty where it has none."""
    path = workspace / PLACE
    return str(path) if path.is_dir() else ""


@contextmanager
def _so_called() -> Iterator[None]:
    """Has errors name the parameters of a base model, which are read as those of a dataset."""
    try:
        yield
    except TriremeError as error:
        message = re.sub(r"\bdataset_uri\b", "base_model", str(error))
        error.args = (re.sub(r"\bdataset_(?=secret\b|options\b)", "base_model_", message),)
        raise


@_so_called()
def check(
    uri: str, secret: str, options: dict[str, Any], *, claims: Collection[str] | None = None
) -> None:
    """Refuses what cannot be staged; on a cluster the pods have ``claims`` mounted."""
    if not uri:
        return
    dataset = described(uri, secret, options, BaseModel)
    if claims is None:
        check_here(dataset)
        source_of(dataset)
    elif dataset.way == "mount":
        mounted.check_claim(dataset, claims)


@_so_called()
def stage_base_model(workspace: Path, uri: str, secret: str, options: dict[str, Any]) -> Staged:
    """Stages it where training and the evaluation program find it as BASE_MODEL_DIR."""
    dataset = described(uri, secret, options, BaseModel)
    staged = stage(dataset, workspace / PLACE, cache_of(workspace))
    if license := license_of(workspace / PLACE):
        journal.log_tags({"base_model.license": license})
    return staged


@_so_called()
def text_of(name: str, uri: str, secret: str, options: dict[str, Any]) -> str:
    """Returns a small file of it, which alone is read, before a run."""
    wanted = described(uri, secret, options, BaseModel)
    check_here(wanted)
    source = source_of(wanted)
    found = next((entry for entry in source.list() if entry.name == name), None)
    if found is None:
        raise InputError(f"dataset_uri {uri!r}: it has no {name}")
    try:
        return b"".join(source.read(found, 0, found.size)).decode()
    except (Fault, ValueError) as error:
        raise TriremeError(f"dataset_uri {uri!r}: {name} could not be read: {error}") from None


def license_of(folder: Path) -> str:
    """Returns the license that a model's card names, as on the Hub; empty where there is none."""
    try:
        _, head, _ = (folder / "README.md").read_text(errors="replace").split("---\n", 2)
        front_matter = yaml.safe_load(head)
    except (OSError, ValueError, yaml.YAMLError):
        return ""
    licenses = front_matter.get("license") if isinstance(front_matter, dict) else ""
    return ", ".join(map(str, licenses)) if isinstance(licenses, list) else str(licenses or "")
