"""A held-out split for a dataset that has none: a share of its samples that training never sees.

Two datasets are made of one: what training gets, with the files' names as they were, and what the
evaluation gets, which has the split ``test`` beside. Which samples are held out depends on their
content alone, or on the names of pictures: it is the same for all runs, whatever their seed, so
that models can be compared, and a sample that is there again once the data have grown mostly stays
in its part.
"""

import hashlib
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from trireme.data import forms, npz, tables
from trireme.data.cache_entry import Staged
from trireme.data.copying import link_or_copy
from trireme.data.description import Dataset
from trireme.data.folders import close_folders, remove
from trireme.data.lock import locked
from trireme.data.tables import TableError
from trireme.errors import InputError
from trireme.text import json_values
from trireme.text.say import say

RULE = 1
"""Which rule it is that chooses the samples; what another one makes is another dataset."""

SUFFIX = ".held-out"
"""What the path of the evaluation's data ends with, which are beside those of training."""

ABOUT = "dataset.json"

NO_CLASSES = {"images", "test", "train", "val", "valid", "validation"}
"""Names of folders of pictures that are parts of a dataset, or all of it, rather than classes."""

FORMS = "one CSV or Parquet file, a train.npz, or folders CLASS or train/CLASS of pictures"


class Split(NamedTuple):
    """A dataset in two parts.

    Attributes:
        whole: What the evaluation gets: both.
        training: Where that is which training gets.
    """

    whole: Staged
    training: Path
    in_training: int
    held_out: int


class _Made(NamedTuple):
    """What has been made of the files of a dataset.

    Attributes:
        taken: Their names; all other files are in both parts.
        about: What is to be known of them.
    """

    in_training: int
    held_out: int
    taken: set[str]
    about: dict[str, object]


def for_evaluation(data: Path) -> Path:
    """Returns where a run has its data with the held-out part, given where training has its own."""
    whole = beside(data)
    return whole if whole.is_dir() else data


def beside(data: Path) -> Path:
    """Returns where the evaluation's data are, if they are not those of training."""
    return data.with_name(f"{data.name}{SUFFIX}")


def split(staged: Staged, dataset: Dataset, cache: Path) -> Split:
    """Returns a dataset of the cache in two parts, which are made there unless they are there."""
    identity = json.dumps([RULE, staged.fingerprint, dataset.holdout, dataset.label])
    name = hashlib.sha256(identity.encode()).hexdigest()
    of_training = hashlib.sha256(f"{name} training".encode()).hexdigest()
    whole, training = (cache.absolute() / "trees" / digest for digest in (name, of_training))
    if not (_is_as_made(whole) and _is_as_made(training)):
        waiting = partial(say, "waiting for another run that splits this dataset")
        with locked(cache / "locks" / name, waiting):
            if not (_is_as_made(whole) and _is_as_made(training)):
                _make(Path(staged.path), dataset, whole, training, cache / "partial" / name)
    for tree in (whole, training):
        with suppress(OSError):  # the cache may be somebody else's
            (cache / "used" / tree.name).touch()
    counts = json.loads((whole / ABOUT).read_text())["holdout"]
    files = [file for file in whole.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    result = Staged(str(whole), f"sha256:{name}", len(files), size, staged.copied)
    return Split(result, training, counts["training"], counts["held_out"])


def _is_as_made(tree: Path) -> bool:
    """Tells whether a tree is there, and nobody has written to it, as root can by mistake."""
    stamp = tree.parents[1] / "made" / tree.name
    if not tree.is_dir() or not stamp.exists():
        return False
    made_at = stamp.stat().st_mtime_ns
    return os.geteuid() != 0 or all(
        path.stat().st_mtime_ns <= made_at for path in (tree, *tree.rglob("*"))
    )


def _make(source: Path, dataset: Dataset, whole: Path, training: Path, at: Path) -> None:
    remove(at)
    halves = at / "whole", at / "training"
    try:
        for half in halves:
            half.mkdir(parents=True)
        _fill(source, dataset, *halves)
        for half, tree in zip(halves, (whole, training), strict=True):
            close_folders(half)
            remove(tree)
            half.rename(tree)
            tree.chmod(0o555)
            (tree.parents[1] / "made" / tree.name).touch()
    except (TableError, *npz.FAULTS) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk
        raise InputError(f"dataset_options.holdout: {error}") from None
    finally:
        remove(at)


def _fill(source: Path, dataset: Dataset, whole: Path, training: Path) -> None:
    """Fills the folders of both parts."""
    assert dataset.holdout is not None
    if test_file := forms.test_split(source):
        raise TableError(f"the dataset has a test split already, {test_file}")
    ways = _ways(source)
    if len(ways) != 1:
        lacks = f"the dataset holds nothing that can be split, which is {FORMS}"
        among = "dataset_options.include and exclude choose among them"
        raise TableError(f"the dataset holds {' and '.join(ways)}; {among}" if ways else lacks)
    (make,) = ways.values()
    result = make(source, dataset.holdout, dataset.label or "", whole, training)
    for folder, _, names in os.walk(source):
        for name in names:
            file = Path(folder, name)
            if str(file.relative_to(source)) not in result.taken:
                for part in (whole, training):
                    _link(file, part / file.relative_to(source))
    about_file = whole / ABOUT
    about = _about(about_file) | result.about
    counts = {"share": dataset.holdout, "training": result.in_training, "held_out": result.held_out}
    about_file.unlink(missing_ok=True)
    about_file.write_text(json.dumps(about | {"holdout": counts}, indent=1))
    about_file.chmod(0o444)


def _about(file: Path) -> dict[str, object]:
    """Returns what a dataset says of itself, if it does."""
    if not file.exists():
        return {}
    try:
        about = json_values.read(file.read_text())
    except ValueError as error:
        raise TableError(f"{ABOUT} cannot be read: {error}") from None
    return about if isinstance(about, dict) else {}


def _link(file: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    link_or_copy(file, path)


Way = Callable[[Path, float, str, Path, Path], _Made]


def _ways(source: Path) -> dict[str, Way]:
    """Returns what in a dataset can be split, as a person calls it, and how."""
    if (source / "train.npz").exists():
        return {"train.npz": _npz}
    files = [file.relative_to(source) for file in sorted(source.rglob("[!.]*"))]
    listed = [file for file in files if file.suffix.lower() in tables.SUFFIXES]
    named = [file for file in listed if file.stem.lower() == "train"]
    ways: dict[str, Way] = {str(file): partial(_table, file) for file in named or listed}
    if not named:
        for folder in ("train", "."):
            if forms.classes(source / folder):
                called = "folders of pictures" + (f" in {folder}" if folder != "." else "")
                return ways | {called: partial(_pictures, folder)}
    return ways


def _table(
    file: Path, source: Path, share: float, label: str, whole: Path, training: Path
) -> _Made:
    cells: list[Any] = []
    keys: list[bytes] = []
    with tables.opened(source / file) as (names, rows):
        how = """dataset_options='{"holdout": …, "label": "COLUMN"}'"""
        label = tables.label_among(names, label, str(file), how)
        column = names.index(label)
        for number, row in enumerate(rows, 1):
            if tables.is_missing(row.cells[column]):
                raise TableError(f"{file} has no {label!r} in row {number}")
            cells.append(sys.intern(cell) if isinstance(cell := row.cells[column], str) else cell)
            keys.append(tables.digest(row))
    values = tables.numbers(cells)
    about: dict[str, object] = {"label": label}
    if values is None:
        cells = [str(cell) for cell in cells]
        about["classes"] = sorted(set(cells))
    is_measured = values is not None and any(isinstance(value, float) for value in values)
    held_out = _chosen([None] * len(cells) if is_measured else values or cells, keys, share)
    of_test = f"test{file.suffix.lower()}"
    (whole / file).parent.mkdir(parents=True, exist_ok=True)
    parts = [
        (whole / file, lambda number: number not in held_out),
        (whole / of_test, lambda number: number in held_out),
    ]
    tables.write_parts(source / file, parts)
    for path, _ in parts:
        path.chmod(0o444)
    _link(whole / file, training / file)
    return _Made(len(cells) - len(held_out), len(held_out), {str(file)}, about)


def _npz(source: Path, share: float, label: str, whole: Path, training: Path) -> _Made:
    file = source / "train.npz"
    arrays = npz.arrays(file)
    if lacking := {"x", "y"} - arrays.keys():
        raise TableError(f"train.npz has no array {min(lacking)}")
    samples = arrays["y"].rows
    if arrays["x"].rows != samples:
        raise TableError(f"train.npz has {arrays['x'].rows} samples x and {samples} labels y")
    are_classes = arrays["y"].is_whole and len(arrays["y"].shape) == 1
    labels = [*npz.rows(file, "y")] if are_classes else [b""] * samples
    keys = [hashlib.sha256(row).digest() for row in npz.rows(file, "x")]
    held_out = _chosen(labels, keys, share)
    test = whole / "test.npz"
    parts = [
        (whole / file.name, lambda number: number not in held_out, samples - len(held_out)),
        (test, lambda number: number in held_out, len(held_out)),
    ]
    npz.write_parts(file, parts, samples)
    for path, *_ in parts:
        path.chmod(0o444)
    _link(whole / file.name, training / file.name)
    return _Made(samples - len(held_out), len(held_out), {file.name}, {})


def _pictures(
    folder: str, source: Path, share: float, label: str, whole: Path, training: Path
) -> _Made:
    names = forms.classes(source / folder)
    if no_classes := NO_CLASSES.intersection(map(str.lower, names)):
        raise TableError(
            f"the pictures are in a folder {min(no_classes)}, and not in one for each class"
        )
    files = [file for name in names for file in sorted(forms.pictures(source / folder / name))]
    classes = [file.parent.name for file in files]
    keys = [hashlib.sha256(os.fsencode(file.relative_to(source))).digest() for file in files]
    held_out = _chosen(classes, keys, share)
    for number, file in enumerate(files):
        part = "test" if number in held_out else "train"
        _link(file, whole / part / file.parent.name / file.name)
        if number not in held_out:
            _link(file, training / file.relative_to(source))
    paths = {str(file.relative_to(source)) for file in files}
    return _Made(len(files) - len(held_out), len(held_out), paths, {})


def _chosen(groups: Sequence[Hashable], keys: Sequence[bytes], share: float) -> set[int]:
    """Returns which samples are held out: of each group as many as its share, by their keys.

    What a group's share has less than a whole sample goes by largest remainders, one to a group; a
    class with a single sample is left to training unless all are so.
    """
    by_group = defaultdict(list)
    for number, group in enumerate(groups):
        by_group[group].append(number)
    held_out: set[int] = set()
    next_ones = []
    for numbers in by_group.values():
        numbers.sort(key=lambda number: (keys[number], number))
        count = int(len(numbers) * share)
        held_out.update(numbers[:count])
        if count + 1 < len(numbers) or len(by_group) == len(groups):
            remainder = len(numbers) * share - count
            next_ones.append((-remainder, keys[numbers[count]], numbers[count]))
    more = max(0, round(len(groups) * share) - len(held_out))
    held_out.update(number for *_, number in sorted(next_ones)[:more])
    if not held_out or len(held_out) == len(groups):
        raise TableError(
            f"a share of {share:g} of {len(groups)} samples leaves one part without any"
        )
    return held_out
