"""A dataset in the folder of the code."""

import subprocess

import pytest

from trireme.pipeline.code_and_data import apart

KNOWN = (
    *("code_url", "code_revision", "code_directory", "code_without", "dataset_uri"),
    *("dataset_options", "job"),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder where a person stands, with code and data."""
    place = tmp_path / "project"
    for name in ("train.py", "input/flowers/a.csv"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
    monkeypatch.chdir(place)
    return place


def test_it_is_no_code_and_is_shown_where_it_lies(folder, capsys):
    given = {"code_url": ".", "dataset_uri": "./input/flowers/", "job": {"env": {"A": "1"}}}
    expected = {
        "code_without": ["input/flowers"],
        "job": {"env": {"A": "1"}, "data_at": "input/flowers"},
    }
    assert apart(given, KNOWN) == expected
    told = "input/flowers is the dataset and no code; the program finds it where it lies\n"
    assert capsys.readouterr().err.endswith(told)
    assert apart(given | {"dataset_uri": (folder / "input/flowers").as_uri()}, KNOWN) == expected
    subprocess.run(["git", "init", "--quiet"], check=True)
    assert apart(given, KNOWN) == expected
    (folder / ".gitignore").write_text("input\n")
    assert apart(given, KNOWN) == expected


def test_paths_of_the_program_count_from_its_directory(folder):
    (folder / "team").mkdir()
    (folder / "input").rename(folder / "team/input")
    given = {"code_url": ".", "code_directory": "team", "dataset_uri": "team/input"}
    found = apart(given, KNOWN)
    assert found == {"code_without": ["team/input"], "job": {"data_at": "input"}}


def test_data_of_the_whole_repository_are_found_from_a_directory_of_it(folder):
    (folder / "team").mkdir()
    given = {"code_url": ".", "code_directory": "team", "dataset_uri": "team/../input"}
    found = apart(given, KNOWN)
    assert found == {"code_without": ["input"], "job": {"data_at": "../input"}}
    assert apart(given | {"code_directory": "input/flowers"}, KNOWN) == {}


def test_a_link_is_what_the_program_looks_for(folder, tmp_path):
    (folder / "input").rename(tmp_path / "elsewhere")
    (folder / "input").symlink_to(tmp_path / "elsewhere")
    found = apart({"code_url": ".", "dataset_uri": "input"}, KNOWN)
    assert found == {"code_without": ["input"], "job": {"data_at": "input"}}


@pytest.mark.parametrize(
    "more",
    [
        {"dataset_uri": "."},
        {"dataset_uri": ".."},
        {"dataset_uri": "input/.."},
        {"dataset_uri": "/tmp"},
        {"dataset_uri": "nothing"},
        {"dataset_uri": "train.py"},
        {"dataset_uri": "s3://bucket/input"},
        {"dataset_uri": ""},
        {"code_url": ""},
        {"code_url": "https://example.org/input"},
        {"code_revision": "main"},
        {"code_directory": "input/flowers"},
        {"code_without": ["other"]},
        {"job": {"data_at": "other"}},
    ],
    ids=str,
)
def test_others_are_left_as_they_are(folder, more, capsys):
    assert apart({"code_url": ".", "dataset_uri": "input"} | more, KNOWN) == {}
    assert capsys.readouterr().err == ""


def test_a_pipeline_without_these_parameters_is_left_as_it_is(folder):
    assert apart({"code_url": ".", "dataset_uri": "input"}, {*KNOWN} - {"code_without"}) == {}


def test_what_git_has_whole_stays_code(folder):
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run(["git", "add", "."], check=True)
    given = {"code_url": ".", "dataset_uri": "input"}
    assert apart(given, KNOWN) == {}
    (folder / "input/b.csv").write_text("new")
    assert apart(given, KNOWN)["code_without"] == ["input"]
