"""Datasets that a pipeline's pods have mounted: what they are, without a copy."""

from collections.abc import Collection

from trireme.data import volumes
from trireme.data.cache_entry import Staged
from trireme.data.description import Dataset, refuse_mounted
from trireme.data.fingerprint import of_content, of_times
from trireme.data.listing import in_order
from trireme.data.sources.local import files_of
from trireme.errors import InputError
from trireme.files.home import in_a_pod


def check_claim(dataset: Dataset, claims: Collection[str]) -> None:
    """Refuses a dataset that the pods of a pipeline would not have mounted."""
    place = dataset.place
    if place.kind != "pvc":
        raise InputError(
            f"dataset_uri {dataset.uri!r}: the pods of a pipeline mount only claims; create one "
            "with 'trireme dataset volume', compile with --dataset-claim, and give pvc://claim"
        )
    if place.host not in claims:
        raise InputError(
            f"dataset_uri {dataset.uri!r}: the claim is not mounted; compile the pipeline with "
            f"--dataset-claim {place.host}"
        )


def find(dataset: Dataset) -> Staged:
    """Finds a dataset in the claim that is mounted, and takes its fingerprint."""
    if not in_a_pod():
        refuse_mounted(dataset)
    place = dataset.place
    claims = {path.name for path in volumes.DATASETS.glob("*") if path.is_dir()}
    check_claim(dataset, claims)
    claim = volumes.DATASETS / place.host
    path = claim / place.path
    if not path.is_dir() or not path.resolve().is_relative_to(claim.resolve()):
        raise InputError(f"dataset_uri {dataset.uri!r}: there is no such directory in the claim")
    entries = in_order(files_of(path))
    if not entries:
        raise InputError(f"dataset_uri {dataset.uri!r} holds no files")
    in_full = dataset.fingerprint == "content"
    fingerprint = of_content(path, entries) if in_full else of_times(entries)
    return Staged(str(path), fingerprint, len(entries), sum(entry.size for entry in entries), 0)
