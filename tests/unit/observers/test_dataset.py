"""trireme/observers/dataset.py: what is told of a program that changes its dataset."""

import pytest

from trireme.errors import JobFailed
from trireme.observers import dataset
from trireme.observers.base import Observers
from trireme.observers.dataset import TAG, Unchanged


@pytest.fixture
def data(tmp_path):
    tree = tmp_path / "cache"
    (tree / "images").mkdir(parents=True)
    for name in ("a.txt", "images/1.png", "images/2.png"):
        (tree / name).write_text(name)
    (tmp_path / "data").symlink_to(tree)
    return tmp_path / "data"


@pytest.fixture
def found(data):
    """Returns what is said of a program, which is a function."""

    def watch(program, failure=None):
        findings = []
        observers = Observers([Unchanged(data)], findings.append)
        observers.prepare({})
        program()
        observers.prepare({})  # the job is made anew
        observers.end(failure)
        return findings

    return watch


def change(data):
    (data / "images" / "labels.cache").write_text("made")
    (data / "a.txt").write_text("another")
    (data / "images" / "2.png").unlink()


@pytest.mark.parametrize("failure", [None, JobFailed("no luck")])
def test_the_files_that_a_program_has_changed_are_named(data, found, failure):
    (told,) = found(lambda: change(data), failure)
    names = "a.txt, images/2.png, images/labels.cache"
    assert told.tags == {TAG: names}
    (sentence,) = told.words
    assert sentence.startswith("warning: the program has changed its dataset")
    assert sentence.endswith(names)


def test_of_one_that_only_reads_nothing_is_said(data, found):
    assert found((data / "a.txt").read_text) == []


def test_of_many_files_the_first_are_named(data, found):
    (told,) = found(lambda: [(data / f"{n}.npy").touch() for n in range(7)])
    assert told.tags[TAG] == "0.npy, 1.npy, 2.npy, 3.npy, 4.npy and 2 more"


def test_a_large_dataset_is_not_looked_at(data, found, monkeypatch):
    monkeypatch.setattr(dataset, "MOST", 2)
    assert found(lambda: change(data)) == []
