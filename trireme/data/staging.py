"""Give a run its dataset: bring it to a cache or find it mounted, and record what it is."""

import os
import uuid
from pathlib import Path
from typing import Any

from trireme.data import forms, holdout, mounted, volumes
from trireme.data.cache import fetch
from trireme.data.cache_entry import Staged
from trireme.data.description import Dataset
from trireme.data.folders import open_folders, remove
from trireme.errors import InputError, TriremeError
from trireme.files.home import home, in_a_pod
from trireme.tracking import journal


def cache_of(workspace: Path) -> Path:
    """Returns the cache for a run.

    Here it is this machine's own; on a cluster that of all runs, where the pipeline was compiled
    with one, else one in the run's workspace.
    """
    if not in_a_pod():
        return home() / "cache"
    return volumes.CACHE if volumes.CACHE.is_dir() else workspace / "cache"


def stage(
    dataset: Dataset | str,
    destination: Path,
    cache: Path | None = None,
    *,
    evaluation: dict[str, Any] | None = None,
) -> Staged:
    """Makes a dataset a directory, which appears whole or not at all.

    Args:
        destination: The directory to make; one that is mounted becomes a link to where it is.
        cache: The cache whose files the directory becomes a link to; without one the directory
            holds the files itself.
        evaluation: How models are to be evaluated on it: by a program, or, of an empty one, as they
            are by default, which it is told of if they cannot be. None: they are not.
    """
    if isinstance(dataset, str):
        dataset = Dataset.from_text(dataset)
    try:
        staged = _brought(dataset, destination, cache)
    except OSError as error:
        raise TriremeError(f"dataset_uri {dataset.uri!r} cannot be used: {error}") from None
    staged = staged._replace(path=str(destination))
    purpose = dataset.purpose
    journal.log_params({f"{purpose}_uri": dataset.uri})
    journal.log_metrics({f"{purpose}_files": staged.files, f"{purpose}_bytes": staged.bytes})
    journal.log_dataset(purpose, dataset.uri, staged.fingerprint, staged.files, staged.bytes)
    tags = {"uri": dataset.uri, "fingerprint": staged.fingerprint}
    journal.log_tags({f"{purpose}.{name}": value for name, value in tags.items()})
    summary = (
        f"{dataset.uri}, {staged.files:,} file{'s' * (staged.files != 1)}, {staged.bytes:,} bytes, "
        f"{staged.fingerprint[:19]}"
    )
    lacking = forms.unfit(holdout.for_evaluation(destination)) if evaluation == {} else ""
    journal.summarize("; ".join(filter(None, (summary, lacking and f"warning: {lacking}"))))
    return staged


def _brought(dataset: Dataset, destination: Path, cache: Path | None) -> Staged:
    if dataset.way == "stage" and not cache and dataset.holdout is None:
        return _move(dataset, destination)
    staged = fetch(dataset, cache) if cache and dataset.way == "stage" else mounted.find(dataset)
    training = Path(staged.path)
    if dataset.holdout is not None:
        assert cache
        staged, training, *counts = holdout.split(staged, dataset, cache)
        _link(holdout.beside(destination), Path(staged.path))
        journal.log_params({"dataset_holdout": dataset.holdout})
        names = "dataset_training_samples", "dataset_held_out_samples"
        journal.log_metrics(dict(zip(names, map(float, counts), strict=True)))
    _link(destination, training)
    return staged


def _link(destination: Path, tree: Path) -> None:
    if destination.is_symlink() and destination.resolve() == tree.resolve():
        return  # also where whoever made it is the only one who may change it
    destination.parent.mkdir(parents=True, exist_ok=True)
    # Several pods may do this to one destination. A volume has another path outside of a pod, so
    # what is in the same one is named from here.
    link = destination.with_name(f"{destination.name}.{uuid.uuid4().hex}")
    link.symlink_to(os.path.relpath(tree.resolve(), destination.parent.resolve()))
    if destination.is_dir() and not destination.is_symlink():
        remove(destination)
    link.rename(destination)


def _move(dataset: Dataset, destination: Path) -> Staged:
    """Makes a cache of its own beside the destination, which a killed copy can go on from."""
    partial = destination.with_name(destination.name + ".partial")
    try:
        staged = fetch(dataset, partial)
        tree = Path(staged.path)
        open_folders(tree)
        if destination.is_symlink():
            destination.unlink()
        remove(destination)
        tree.rename(destination)
    except InputError:
        remove(partial)
        raise
    remove(partial)
    return staged
