"""A link in the code to the dataset."""

import subprocess
import sys
from pathlib import Path

import pytest

from trireme.code.data_link import advice, link
from trireme.errors import InputError
from trireme.job.job import TrainingJob


@pytest.fixture
def places(tmp_path):
    code, data = tmp_path / "code", tmp_path / "dataset"
    code.mkdir()
    data.mkdir()
    (data / "a.csv").write_text("1")
    return code, str(data)


def test_a_program_finds_its_data_where_it_looks(places):
    code, data = places
    for _ in range(2):
        link(code, "input/data", data, code)
    assert (code / "input/data/a.csv").read_text() == "1"


def test_a_program_of_a_folder_finds_its_data_elsewhere_in_the_repository(places):
    repository, data = places
    (repository.parent / ".git").mkdir()  # that of a user, in which the workspace is
    (repository / "mnist").mkdir()
    link(repository / "mnist", "../data", data, repository)
    assert (repository / "data/a.csv").read_text() == "1"
    with pytest.raises(InputError, match=r"data_at '../../data': leads out of the repository"):
        link(repository / "mnist", "../../data", data, repository)
    assert not (repository.parent / "data").exists()


def test_nothing_is_changed_behind_a_link_out_of_the_repository(places):
    repository, data = places
    outside = repository.parent / "outside"
    (outside / "data").mkdir(parents=True)
    (repository / "linked").symlink_to(outside)
    with pytest.raises(InputError, match=r"data_at 'linked/data': leads out of the repository"):
        link(repository, "linked/data", data, repository)
    assert (outside / "data").is_dir() and not (outside / "data").is_symlink()


def test_a_link_to_a_folder_is_no_empty_folder(places):
    repository, data = places
    for folder in ("real", "data"):
        (repository / folder).mkdir()
    (repository / "data/linked").symlink_to("../real")
    with pytest.raises(InputError, match="the code has files there"):
        link(repository, "data", data, repository)


def test_a_folder_that_only_git_needs_makes_room(places):
    code, data = places
    (code / "data/train").mkdir(parents=True)
    (code / "data/train/.gitkeep").touch()
    link(code, "data", data, code)
    assert [file.name for file in (code / "data").iterdir()] == ["a.csv"]


def test_files_of_the_code_are_never_hidden(places):
    code, data = places
    (code / "data").mkdir()
    (code / "data/sample.csv").touch()
    with pytest.raises(InputError, match="data_at 'data': the code has files there"):
        link(code, "data", data, code)
    (code / "other").symlink_to("data")
    with pytest.raises(InputError, match="data_at 'other': the code has files there"):
        link(code, "other", data, code)


@pytest.mark.parametrize(
    ("looked_for", "said"),
    [
        ("in/put/a.csv", """a.csv, in DATA_DIR; -p job='{"data_at": "in/put"}' shows"""),
        ("../input/a.csv", "a.csv, in DATA_DIR"),
        ("a.csv", "a.csv, in DATA_DIR"),
        ("data/b.csv", ""),
        ("/data/a.csv", ""),
    ],
)
def test_a_file_that_is_looked_for_elsewhere_is_named_where_it_is(places, looked_for, said):
    reason = f"FileNotFoundError: [Errno 2] No such file or directory: '{looked_for}'"
    found = advice(reason, Path(places[1]))
    assert found.startswith(f"the dataset has {said}" if said else "") and bool(found) == bool(said)


@pytest.mark.parametrize("at", ["", "/data", "..", "data/../..", "../.git", ".git/data", "a\0b"])
def test_it_stays_in_the_code(at):
    with pytest.raises(InputError, match=r"data_at .*: must be a path inside the code"):
        TrainingJob.create(name="a", image="i", entrypoint="train.py", data_at=at)


def test_the_container_that_fetches_the_code_makes_it(make_repository, tmp_path, places):
    _, data = places
    made = make_repository("origin")
    (made.directory / "train.py").touch()
    command = [sys.executable, "-m", "trireme.code", "--data-at=data", f"--data={data}"]
    words = [str(made.directory), "", str(tmp_path / "there")]
    subprocess.run([*command, *words], check=True, cwd=tmp_path)
    assert str((tmp_path / "there" / "data").readlink()) == data
