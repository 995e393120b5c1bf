"""trireme upload."""

import json
import re
import subprocess

import pytest

from trireme.compiling import ir
from trireme.errors import InputError
from trireme.images import BASE, PYTORCH
from trireme.pipeline import catalog
from trireme.targets.kubeflow import uploading
from trireme.targets.kubeflow.target import Kubeflow


def upload(server, name="pytorch-training", claims=None):
    pipeline = ir.mounted(catalog.load(name), claims or {})
    return uploading.upload(Kubeflow(server.url).connection, pipeline)


def test_it_creates_the_pipeline_and_a_version(trireme, kubeflow, untracked):
    status, output, errors = trireme("upload", "pytorch-training")
    assert status == 0
    assert errors == (
        f"note: without a digest, so that what is run can change: {BASE}, {PYTORCH}; --images pins "
        "them\n"
    )
    (pipeline,) = kubeflow.pipelines.values()
    (version,) = kubeflow.versions.values()
    assert (pipeline["name"], pipeline["display_name"]) == ("pytorch-training", "PyTorch training")
    assert pipeline["description"].startswith("Trains a PyTorch model")
    assert pipeline["tags"] == {"made-by": "trireme"}
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    assert version["tags"]["commit"] == head.strip()
    dirty = "-dirty" if version["tags"]["dirty"] == "true" else ""
    assert version["name"] == f"{head[:8]}{dirty}-{version['tags']['content']}"
    assert version["description"] == pipeline["description"]
    assert "kubernetes" in version["pipeline_spec"]["platform_spec"]["platforms"]
    page = f"{kubeflow.url}/#/pipelines/details/{pipeline['pipeline_id']}/version/"
    assert output.splitlines() == [
        "pytorch-training uploaded",
        f"  Version  {version['name']}",
        f"  Id       {version['pipeline_version_id']}",
        f"  Page     {page}{version['pipeline_version_id']}",
    ]
    assert not untracked.exists()


def test_all_are_uploaded_where_none_is_named(trireme, kubeflow):
    assert trireme("upload")[0] == 0
    assert {each["name"] for each in kubeflow.pipelines.values()} == set(catalog.PIPELINES)


def test_the_same_content_again_is_left_alone_and_said_so(trireme, kubeflow):
    trireme("upload", "pytorch-training")
    status, output, _ = trireme("upload", "pytorch-training")
    assert status == 0
    assert output.startswith("pytorch-training is there already, unchanged\n")
    assert len(kubeflow.versions) == 1


def test_the_same_content_at_another_commit_is_no_new_version(kubeflow, monkeypatch):
    first = upload(kubeflow)
    monkeypatch.setattr(uploading, "_commit", lambda pipeline: ("f" * 40, False))
    again = upload(kubeflow)
    assert (again.id, again.name, again.is_new) == (first.id, first.name, False)


def test_other_content_is_a_new_version_of_the_same_pipeline(trireme, kubeflow):
    trireme("upload", "pytorch-training")
    status, output, _ = trireme("upload", "pytorch-training", "--dataset-claim", "flowers")
    assert status == 0
    assert output.startswith("pytorch-training uploaded\n")
    assert len(kubeflow.pipelines) == 1
    contents = {each["tags"]["content"] for each in kubeflow.versions.values()}
    assert len(contents) == len(kubeflow.versions) == 2
    mounted = json.dumps([each["pipeline_spec"] for each in kubeflow.versions.values()])
    assert '"mountPath": "/mnt/datasets/flowers"' in mounted or "flowers" in mounted


def test_what_has_changed_since_the_commit_is_said_in_the_name(kubeflow, monkeypatch):
    monkeypatch.setattr(uploading, "_commit", lambda pipeline: ("a" * 40, True))
    version = upload(kubeflow)
    assert re.fullmatch(r"aaaaaaaa-dirty-[0-9a-f]{12}", version.name)


@pytest.mark.parametrize("changed", [False, True])
def test_the_commit_is_dirty_if_a_pipeline_has_changed(
    make_repository, monkeypatch, unaided_git, changed
):
    repository = make_repository("source")
    (repository.directory / "pipelines").mkdir()
    (repository.directory / "pipelines" / "one.py").write_text("1")
    commit = repository.commit("first")
    (repository.directory / "notes").write_text("not part of any pipeline")
    if changed:
        (repository.directory / "pipelines" / "two.py").write_text("2")
    monkeypatch.setattr(uploading, "SOURCE_TREE", repository.directory)
    assert uploading._commit(catalog.load("pytorch-training")) == (commit, changed)


def test_without_a_checkout_the_release_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(uploading, "SOURCE_TREE", tmp_path)
    name, is_dirty = uploading._commit(catalog.load("pytorch-training"))
    assert re.fullmatch(r"\d+\.\d+\.\d+", name)
    assert not is_dirty


def test_a_version_is_found_among_many_pages_of_them(kubeflow, monkeypatch):
    first = upload(kubeflow)
    for number in range(250):  # the same content, as a search by a part of the name finds it
        copy = dict(kubeflow.versions[first.id])
        copy |= {"name": f"{copy['name']}-{number}", "created_at": kubeflow.now()}
        kubeflow.versions[f"other-{number}"] = copy | {"pipeline_version_id": f"other-{number}"}
    kubeflow.seen.clear()
    again = upload(kubeflow)
    assert (again.id, again.is_new) == (first.id, False)
    assert len([path for path, _ in kubeflow.seen if "/versions?" in path]) == 3


@pytest.mark.parametrize(
    "faults",
    [
        ["503", "500", "429"],
        ["", "reset", "reset"],
        ["", "", "lost"],  # the pipeline has been made
        ["", "", "", "", "lost"],  # the version has
    ],
)
def test_faults_on_the_way_change_nothing_about_what_there_is_in_the_end(kubeflow, faults):
    kubeflow.faults += faults
    version = upload(kubeflow)
    assert list(kubeflow.versions) == [version.id]
    assert list(kubeflow.pipelines) == [version.pipeline_id]
    assert kubeflow.faults == []


def test_a_pipeline_is_checked_before_anything_is_sent(trireme, kubeflow):
    for mistake in (["mxnet"], ["pytorch-training", "--dataset-claim", "No"]):
        status, _, errors = trireme("upload", *mistake)
        assert (status, errors.count("\n")) == (2, 1)
    assert kubeflow.seen == []


def test_what_the_server_refuses_is_said_in_its_words(kubeflow, monkeypatch):
    monkeypatch.setattr(uploading, "_commit", lambda pipeline: ("a" * 40, True))
    monkeypatch.setattr(uploading, "COMMIT_LETTERS", 0)
    monkeypatch.setattr(uploading, "CONTENT_LETTERS", 64)
    with pytest.raises(InputError, match=r"Kubeflow Pipelines refuses: invalid tag|'content'"):
        upload(kubeflow)
