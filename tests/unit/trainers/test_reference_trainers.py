"""The code of a run that names no repository: the trainers that the package carries."""

import shutil

import pytest

from trireme.code import builtin
from trireme.code.git import checkout
from trireme.errors import InputError
from trireme.frameworks import FRAMEWORKS
from trireme.tracking import journal


@pytest.fixture
def trainers(tmp_path, monkeypatch):
    """A copy of the trainers that may be changed, where the package is no git checkout."""
    copy = tmp_path / "site-packages" / "trireme" / "trainers"
    shutil.copytree(builtin.TRAINERS, copy)
    monkeypatch.setattr(builtin, "TRAINERS", copy)
    return copy


@pytest.fixture
def destination(tmp_path):
    return tmp_path / "workspace" / "code"


def test_they_are_where_the_default_entrypoints_are(trainers, destination):
    made = checkout("", "", destination)
    assert made == (str(destination), builtin.commit())
    for framework in ("pytorch", "tensorflow"):
        assert (destination / FRAMEWORKS[framework].trainer).is_file()
    assert [file.name for file in destination.parent.iterdir()] == ["code"]


def test_their_release_and_contents_are_recorded(trainers, destination):
    with journal.opened(destination.parent, "checkout"):
        commit = checkout("", "", destination).commit
    tags = {}
    for record in journal.read(destination.parent, "checkout"):
        tags |= record.get("tags", {})
    assert commit.startswith("sha256:") and len(commit) == 71
    assert tags == {
        "git.commit": commit,
        "git.url": "builtin://trainers",
        "trainers.version": builtin.version(),
    }


def test_the_id_is_that_of_their_contents_alone(trainers):
    before = builtin.commit()
    (trainers / "__pycache__").mkdir(exist_ok=True)
    (trainers / "__pycache__" / "splits.cpython-311.pyc").write_bytes(b"new")
    assert builtin.commit() == before
    (trainers / "splits.py").write_text("pass")
    changed = builtin.commit()
    assert changed != before
    (trainers / "splits.py").rename(trainers / "other.py")
    assert builtin.commit() not in (before, changed)


def test_what_is_there_already_is_left_and_what_is_not_whole_made_anew(trainers, destination):
    checkout("", "", destination)
    before = destination.stat().st_ino
    checkout("", "", destination)
    assert destination.stat().st_ino == before
    (destination / FRAMEWORKS["pytorch"].trainer).unlink()
    checkout("", "", destination)
    assert (destination / FRAMEWORKS["pytorch"].trainer).is_file()


@pytest.mark.parametrize("given", [("main", ""), ("", "models")])
def test_what_only_a_repository_has_is_refused(given, destination):
    revision, directory = given
    with pytest.raises(InputError, match="is given without code_url; give its repository"):
        checkout("", revision, destination, directory=directory)
    assert not destination.parent.exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("entrypoint=train.py", "entrypoint 'train.py' is not one of Trireme's trainers"),
        ('evaluation={"entrypoint": "e.py"}', "evaluation.entrypoint 'e.py' is not one of"),
        ("code_revision=main", "code_revision 'main' is given without code_url"),
    ],
)
def test_a_run_is_refused_before_it_starts(trireme, untracked, given, said):
    status, _, errors = trireme("run", "pytorch-training", "-p", given)
    assert (status, errors.count("\n")) == (2, 1)
    assert said in errors
    assert not untracked.exists()
