"""trireme/data/staging.py."""

import hashlib
import json
import os
import platform
from pathlib import Path

import numpy as np
import pytest
from fingerprints import fingerprint
from sklearn.datasets import load_digits

from trireme.data.staging import stage
from trireme.errors import InputError


@pytest.fixture
def destination(tmp_path):
    return tmp_path / "workspace" / "data"


def tree(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def beside(destination: Path) -> list[str]:
    parent = destination.parent
    return sorted(path.name for path in parent.iterdir()) if parent.exists() else []


def test_digits_staged_twice_are_the_same_bytes(tmp_path):
    one = stage("builtin://digits", tmp_path / "one")
    two = stage("builtin://digits", tmp_path / "two")
    assert one.fingerprint == two.fingerprint
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert set(tree(tmp_path / "one")) == {"train.npz", "test.npz", "dataset.json"}


def test_no_dataset_is_an_empty_folder_like_any_other_dataset(tmp_path):
    for cache in (None, tmp_path / "cache", tmp_path / "cache"):  # the last one finds it there
        staged = stage("builtin://none", tmp_path / "data", cache)
        assert (staged.files, staged.bytes, [*Path(staged.path).iterdir()]) == (0, 0, [])
        assert staged.fingerprint == f"sha256:{hashlib.sha256().hexdigest()}"


def test_digits_are_split_into_two_parts_that_share_no_sample(destination):
    stage("builtin://digits", destination)
    with np.load(destination / "train.npz") as train, np.load(destination / "test.npz") as test:
        assert train["x"].shape == (1438, 1, 8, 8)
        assert test["x"].shape == (359, 1, 8, 8)
        assert train["x"].dtype == test["x"].dtype == np.float32
        assert train["y"].dtype == test["y"].dtype == np.int64
        parts = [
            np.column_stack([part["x"].reshape(len(part["x"]), -1) * 16, part["y"]])
            for part in (train, test)
        ]
    everything = load_digits()
    original = np.column_stack([everything.data, everything.target])
    # Each of the 1,797 originals is there once, so none is in both parts.
    staged = np.concatenate(parts)
    assert np.array_equal(
        staged[np.lexsort(staged.T)].astype(int), original[np.lexsort(original.T)].astype(int)
    )
    together = {sample.tobytes() for sample in parts[0]} & {sample.tobytes() for sample in parts[1]}
    assert not together


def test_digits_hold_every_class_in_both_parts(destination):
    stage("builtin://digits", destination)
    assert json.loads((destination / "dataset.json").read_text())["classes"] == list("0123456789")
    for part in ("train.npz", "test.npz"):
        with np.load(destination / part) as arrays:
            assert set(arrays["y"]) == set(range(10))
            assert arrays["x"].min() >= 0 and arrays["x"].max() == 1


def test_a_directory_is_copied_whole(source, destination):
    result = stage(str(source), destination)
    assert result.path == str(destination)
    assert tree(destination) == tree(source)
    assert beside(destination) == ["data"]
    assert len(result.fingerprint) == len("sha256:") + 64


def test_a_single_file_is_copied_under_its_name(source, destination):
    stage(str(source / "a.txt"), destination)
    assert tree(destination) == {"a.txt": b"first"}


def test_a_file_uri_with_an_encoded_space_is_found(tmp_path, destination):
    (tmp_path / "my data").mkdir()
    (tmp_path / "my data" / "a.txt").write_text("here")
    uri = (tmp_path / "my data").as_uri()
    assert "%20" in uri
    stage(uri, destination)
    assert tree(destination) == {"a.txt": b"here"}


def test_a_path_with_percent_signs_is_taken_as_it_is(tmp_path, destination):
    (tmp_path / "100%20").mkdir()
    (tmp_path / "100%20" / "a.txt").write_text("here")
    stage(str(tmp_path / "100%20"), destination)
    assert tree(destination) == {"a.txt": b"here"}


def test_a_path_and_its_file_uri_give_the_same_fingerprint(source, tmp_path):
    by_path = stage(str(source), tmp_path / "one")
    by_uri = stage(source.as_uri(), tmp_path / "two")
    assert by_path.fingerprint == by_uri.fingerprint


def test_links_are_staged_as_what_they_point_at(source, destination, tmp_path):
    (tmp_path / "elsewhere.txt").write_text("linked")
    (source / "link.txt").symlink_to(tmp_path / "elsewhere.txt")
    stage(str(source), destination)
    assert not (destination / "link.txt").is_symlink()
    assert tree(destination)["link.txt"] == b"linked"


def test_a_dataset_of_before_is_replaced(source, destination):
    stage("builtin://digits", destination)
    stage(str(source), destination)
    assert tree(destination) == tree(source)


def test_a_half_done_copy_of_before_is_not_taken_over(source, destination):
    partial = destination.with_name("data.partial")
    partial.mkdir(parents=True)
    (partial / "rubbish").write_text("half")
    stage(str(source), destination)
    assert tree(destination) == tree(source)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("no/such/place", "no such file or directory"),
        ("file:///no/such/place", "no such file or directory"),
        ("", "dataset_uri"),
        ("~nosuchuser/data", "dataset_uri"),
        pytest.param("a" * 300, "dataset_uri", id="too-long"),
        ("builtin://nothing", "built in are builtin://digits"),
        ("builtin://", "is not built in"),
        ("ftp://host/data", "ftp:// is not supported"),
        ("pvc://claim/data", "needs a cluster"),
        ("https://[/data", "dataset_uri"),
    ],
)
def test_what_cannot_be_staged_is_refused(uri, said, destination, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "file.txt").write_text("nobody asked for this")
    with pytest.raises(InputError, match="dataset_uri") as caught:
        stage(uri, destination)
    assert said in str(caught.value)
    assert beside(destination) == []


def test_an_empty_directory_is_refused_and_nothing_is_left(tmp_path, destination):
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    with pytest.raises(InputError, match="holds no files"):
        stage(str(tmp_path / "empty"), destination)
    assert beside(destination) == []


def test_a_broken_link_is_refused_and_nothing_is_left(source, destination):
    (source / "broken").symlink_to(source / "nowhere")
    with pytest.raises(InputError, match="could not be copied"):
        stage(str(source), destination)
    assert beside(destination) == []


def test_a_failure_leaves_the_dataset_of_before(source, destination):
    stage(str(source), destination)
    (source / "broken").symlink_to(source / "nowhere")
    with pytest.raises(InputError):
        stage(str(source), destination)
    assert tree(destination)["a.txt"] == b"first"


def test_the_fingerprint_changes_with_content(source):
    before = fingerprint(source, full=True)
    (source / "a.txt").write_text("First")
    assert fingerprint(source, full=True) != before


def test_the_fingerprint_changes_with_a_name(source):
    before = fingerprint(source, full=True)
    (source / "a.txt").rename(source / "c.txt")
    assert fingerprint(source, full=True) != before


def test_the_fingerprint_changes_when_content_moves_between_files(source):
    before = fingerprint(source, full=True)
    (source / "a.txt").write_text("second")
    (source / "folder" / "b.txt").write_text("first")
    assert fingerprint(source, full=True) != before


def test_the_fingerprint_does_not_change_with_times_or_places(source, destination):
    before = fingerprint(source, full=True)
    os.utime(source / "a.txt", (1, 1))
    assert fingerprint(source, full=True) == before
    assert stage(str(source), destination).fingerprint == before
    assert fingerprint(destination, full=True) == before


def test_names_that_are_not_utf8_can_be_fingerprinted(source, destination):
    # Archives made on other systems hold such names.
    Path(os.fsdecode(os.fsencode(source) + b"/caf\xe9.txt")).write_text("latin")
    before = stage(str(source), destination).fingerprint
    Path(os.fsdecode(os.fsencode(source) + b"/caf\xe9.txt")).unlink()
    assert fingerprint(source, full=True) != before


def test_a_dataset_that_holds_the_workspace_is_refused_or_staged_without_it(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "a.txt").write_text("mine")
    destination = home / "runs" / "workspace" / "data"
    try:
        stage(str(home), destination)
    except InputError:
        assert beside(destination) == []
    else:
        assert set(tree(destination)) == {"a.txt"}


def test_pythons_own_sources_are_bytes_and_those_that_follow(destination):
    stage("builtin://python-source", destination)
    about = json.loads((destination / "dataset.json").read_text())
    assert about["python"] == platform.python_version()
    texts = {}
    for split in ("train", "test"):
        with np.load(destination / f"{split}.npz") as arrays:
            x, y = arrays["x"], arrays["y"]
        assert x.shape == y.shape and x.shape[1] == 256 and x.dtype == y.dtype == np.uint8
        assert np.array_equal(x[:, 1:], y[:, :-1])
        texts[split] = x.tobytes()
    assert 0.002 < len(texts["test"]) / len(texts["train"]) < 0.2
    # Whole files are held out: one of them is in one of the texts, and not in the other.
    source = Path(json.__file__).read_bytes()[:2000]
    assert (source in texts["train"]) != (source in texts["test"])


def test_digits_are_the_same_bytes_under_every_python(destination):
    expected = "5fd304dea20fca7b90d1477786233aa6ee83808f93fa74ad9cf1f94d61d34537"
    assert stage("builtin://digits", destination).fingerprint == f"sha256:{expected}"


def test_a_few_links_do_not_make_billions_of_files(tmp_path):
    data = tmp_path / "data"
    for level in range(12):
        (data / str(level)).mkdir(parents=True)
        for link in range(8 if level < 11 else 0):
            (data / str(level) / f"to-{link}").symlink_to(data / str(level + 1))
    (data / "11" / "file").write_text("1")
    with pytest.raises(InputError, match="a folder that more than 100 links lead to"):
        stage(str(data), tmp_path / "here")


def test_folders_that_are_too_deep_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(300):
        os.mkdir("n")  # noqa: PTH102 - each in the one before
        os.chdir("n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="more than 200 folders deep"):
        stage(str(tmp_path / "n"), tmp_path / "here")
