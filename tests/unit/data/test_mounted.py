"""trireme/data/mounted.py, and what trireme/data/staging.py makes of it."""

import os
from pathlib import Path

import pytest
from fingerprints import fingerprint

from trireme.data.description import Dataset, described
from trireme.data.staging import cache_of, stage
from trireme.errors import InputError, TriremeError


@pytest.fixture
def flowers(pod):
    """A claim named flowers with two files in it, one of them in a folder."""
    claim = pod / "datasets" / "flowers"
    (claim / "train" / "red").mkdir(parents=True)
    (claim / "train" / "a.txt").write_text("first")
    (claim / "train" / "red" / "b.txt").write_text("second")
    return claim


def test_a_mounted_dataset_is_where_it_is(flowers, tmp_path):
    destination = tmp_path / "workspace" / "data"
    staged = stage("pvc://flowers/train", destination)
    assert staged.path == str(destination)
    assert destination.resolve() == flowers / "train"
    assert (staged.files, staged.bytes, staged.copied) == (2, 11, 0)
    assert staged.fingerprint == fingerprint(flowers / "train")
    assert staged.fingerprint.startswith("mtime:")


def test_its_fingerprint_is_that_of_its_bytes_on_request(flowers, tmp_path):
    dataset = Dataset(uri="pvc://flowers/train", fingerprint="content")
    mounted = stage(dataset, tmp_path / "mounted")
    copied = stage(str(flowers / "train"), tmp_path / "copied")
    assert mounted.fingerprint == copied.fingerprint
    os.utime(flowers / "train" / "a.txt", (1, 1))
    assert stage(dataset, tmp_path / "mounted").fingerprint == copied.fingerprint


def test_a_whole_claim_is_a_dataset(flowers, tmp_path):
    assert stage("pvc://flowers", tmp_path / "data").files == 2


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ("pvc://birds/train", "'pvc://birds/train': the claim is not mounted; .* birds$"),
        ("pvc://flowers/test", "there is no such directory in the claim"),
        ("pvc://flowers/train/a.txt", "there is no such directory in the claim"),
        ("pvc://flowers/out", "there is no such directory in the claim"),
        ("pvc://flowers/empty", "holds no files"),
        ("nfs://server/export", "the pods of a pipeline mount only claims"),
        (Dataset(uri="s3://bucket", access="mount"), "the pods of a pipeline mount only claims"),
    ],
)
def test_what_is_not_mounted_is_refused(dataset, said, flowers, tmp_path):
    (flowers / "empty").mkdir()
    (tmp_path / "outside").mkdir()
    (flowers / "out").symlink_to(tmp_path / "outside")
    with pytest.raises(InputError, match=said):
        stage(dataset, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_what_a_file_system_keeps_for_itself_is_no_data(flowers, tmp_path):
    (flowers / "lost+found").mkdir()
    (flowers / "lost+found" / "#12").write_text("rubbish")
    assert stage("pvc://flowers", tmp_path / "data").files == 2


def test_what_cannot_be_used_is_one_sentence(flowers, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(TriremeError, match=r"'pvc://flowers' cannot be used: .*File exists"):
        stage("pvc://flowers", tmp_path / "file" / "data")


def test_a_pipeline_gets_its_cache_when_it_is_compiled(pod, tmp_path):
    assert cache_of(tmp_path) == tmp_path / "cache"
    (pod / "cache").mkdir(parents=True)
    assert cache_of(tmp_path) == pod / "cache"
    with pytest.raises(InputError, match=r"dataset_options\.cache: .* --cache-claim"):
        described("s3://bucket", "", {"cache": "datasets"})


def test_a_dataset_in_a_shared_cache_is_found_wherever_that_is_mounted(tmp_path):
    """As by Kubernetes, which follows a link only inside of the volume."""
    volume = tmp_path / "volume"
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a.txt").write_text("first")
    stage(str(tmp_path / "source"), volume / "links" / "key", volume)
    elsewhere = volume.rename(tmp_path / "elsewhere")
    link = elsewhere / "links" / "key"
    assert link.is_symlink() and not link.readlink().is_absolute()
    assert (link / "a.txt").read_text() == "first"
    assert link.resolve().is_relative_to(elsewhere)
    assert [path.name for path in link.parent.iterdir()] == ["key"]
    assert Path(elsewhere, "trees").is_dir()
